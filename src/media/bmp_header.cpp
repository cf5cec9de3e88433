// Device-independent bitmaps as in Microsoft's [MS-WMF] 2.2.2.3 to 2.2.2.5 and the Windows SDK.
#include "media/bmp_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "media/decode.h"

namespace hs {
namespace {

constexpr size_t kFileHeaderBytes = 14;
constexpr uint32_t kCoreHeaderBytes = 12;
constexpr uint32_t kInfoHeaderBytes = 40;
constexpr uint32_t kOs2HeaderBytes = 64;
constexpr size_t kMasksAt = kFileHeaderBytes + kInfoHeaderBytes;  // within or behind the header
constexpr std::string_view kDamaged = "The BMP image is damaged or truncated.";

enum Compression : uint32_t {
  kRgb = 0,
  kRle8 = 1,
  kRle4 = 2,
  kBitFields = 3,
  kJpeg = 4,
  kPng = 5,
  kAlphaBitFields = 6,
};

// What the headers say and BmpHeader does not keep.
struct RawHeader {
  uint32_t header_bytes = 0;
  uint32_t compression = kRgb;
  uint32_t n_colours = 0;  // 0: as many as the bits can name
  size_t end = 0;          // of the header and of the masks behind it
};

bool is_known_header(uint32_t bytes) {
  constexpr uint32_t kKnown[] = {
      kCoreHeaderBytes, kInfoHeaderBytes, 52, 56, kOs2HeaderBytes, 108, 124};
  return std::ranges::find(kKnown, bytes) != std::end(kKnown);
}

// REQUIRES: the file holds the whole header.
RawHeader read_fields(std::span<const uint8_t> file, uint32_t header_bytes, BmpHeader& bmp) {
  RawHeader raw{.header_bytes = header_bytes, .end = kFileHeaderBytes + header_bytes};
  if (header_bytes == kCoreHeaderBytes) {
    bmp.width = little_u16(file, 18);
    bmp.height = little_u16(file, 20);
    bmp.bits = static_cast<int>(little_u16(file, 24));
    return raw;
  }
  bmp.width = static_cast<int32_t>(little_u32(file, 18));
  bmp.height = static_cast<int32_t>(little_u32(file, 22));
  bmp.top_down = bmp.height < 0;
  if (bmp.top_down) bmp.height = -bmp.height;
  bmp.bits = static_cast<int>(little_u16(file, 28));
  raw.compression = little_u32(file, 30);
  raw.n_colours = little_u32(file, 46);
  if (header_bytes == kInfoHeaderBytes && raw.compression == kBitFields) raw.end += 12;
  if (header_bytes == kInfoHeaderBytes && raw.compression == kAlphaBitFields) raw.end += 16;
  return raw;
}

Status read_coding(const RawHeader& raw, BmpHeader& bmp) {
  constexpr int kBits[] = {1, 2, 4, 8, 16, 24, 32};
  if (raw.header_bytes == kOs2HeaderBytes && raw.compression > kRle4)
    return unsupported_image("BMP with an OS/2 compression");
  if (raw.compression == kJpeg || raw.compression == kPng)
    return unsupported_image("BMP around JPEG or PNG data");
  if (raw.compression > kAlphaBitFields)
    return unsupported_image(fmt::format("BMP with compression {}", raw.compression));
  if (std::ranges::find(kBits, bmp.bits) == std::end(kBits))
    return unsupported_image(fmt::format("BMP with {} bits a pixel", bmp.bits));
  if (raw.compression == kRle8) bmp.coding = BmpCoding::kRle8;
  if (raw.compression == kRle4) bmp.coding = BmpCoding::kRle4;
  const int coded_bits = raw.compression == kRle8 ? 8 : 4;
  if (bmp.coding != BmpCoding::kPlain && bmp.bits != coded_bits)
    return invalid_image(std::string(kDamaged));
  return {};
}

// False: the mask's bits are not adjacent.
bool set_mask(uint32_t mask, BmpChannel& channel) {
  channel = {};
  if (mask == 0) return true;
  const int shift = std::countr_zero(mask);
  channel = {.mask = mask, .shift = shift, .max = mask >> shift};
  return (channel.max & (channel.max + 1)) == 0;
}

// The masks of the file where it has them, else Windows' own: 5 bits each, or 8.
Status read_masks(std::span<const uint8_t> file, const RawHeader& raw, BmpHeader& bmp) {
  if (bmp.bits != 16 && bmp.bits != 32) return {};
  uint32_t masks[4] = {0x7C00, 0x03E0, 0x001F, 0};
  if (bmp.bits == 32) {
    masks[0] = 0xFF0000;
    masks[1] = 0xFF00;
    masks[2] = 0xFF;
  }
  const bool in_file = raw.compression == kBitFields || raw.compression == kAlphaBitFields;
  if (in_file) {
    const size_t n_masks = raw.end >= kMasksAt + 16 ? 4 : 3;
    for (size_t i = 0; i < n_masks; ++i) masks[i] = little_u32(file, kMasksAt + i * 4);
    const uint32_t top = bmp.bits == 16 ? 0xFFFF : 0xFFFFFFFF;
    for (uint32_t& mask : masks) mask &= top;
    if ((masks[0] | masks[1] | masks[2]) == 0) return invalid_image(std::string(kDamaged));
  }
  if (!set_mask(masks[0], bmp.red) || !set_mask(masks[1], bmp.green) ||
      !set_mask(masks[2], bmp.blue) || !set_mask(masks[3], bmp.alpha))
    return unsupported_image("BMP with channels of scattered bits");
  return {};
}

// Palette and pixels follow the header. Files disagree on which of the two sizes is right, the
// palette's or the gap before the pixels: the smaller one is.
Status read_palette_and_pixels(std::span<const uint8_t> file, const RawHeader& raw,
                               BmpHeader& bmp) {
  const size_t entry_bytes = raw.header_bytes == kCoreHeaderBytes ? 3 : 4;
  const size_t named = bmp.bits <= 8 ? size_t{1} << bmp.bits : 0;
  size_t n_colours = raw.n_colours != 0 && bmp.bits <= 8 ? raw.n_colours : named;
  size_t pixels_at = little_u32(file, 10);
  if (pixels_at > raw.end)
    n_colours = std::min(n_colours, (pixels_at - raw.end) / entry_bytes);
  else  // some writers leave the palette out of the offset
    pixels_at = raw.end + n_colours * entry_bytes;
  if (pixels_at > file.size()) return invalid_image(std::string(kDamaged));
  for (size_t i = 0; i < std::min(n_colours, named); ++i)
    for (size_t c = 0; c < 3; ++c) bmp.palette[i][c] = file[raw.end + i * entry_bytes + 2 - c];
  bmp.pixels = file.subspan(pixels_at);
  return {};
}

}  // namespace

Result<BmpHeader> read_bmp_header(std::span<const uint8_t> file) {
  if (file.size() < kFileHeaderBytes + 4) return invalid_image(std::string(kDamaged));
  const uint32_t header_bytes = little_u32(file, kFileHeaderBytes);
  if (!is_known_header(header_bytes))
    return unsupported_image(fmt::format("BMP with a header of {} bytes", header_bytes));
  if (file.size() < kFileHeaderBytes + header_bytes) return invalid_image(std::string(kDamaged));
  BmpHeader bmp;
  const RawHeader raw = read_fields(file, header_bytes, bmp);
  if (raw.end > file.size()) return invalid_image(std::string(kDamaged));
  Status ok = read_coding(raw, bmp);
  if (ok) ok = read_masks(file, raw, bmp);
  if (ok) ok = read_palette_and_pixels(file, raw, bmp);
  if (!ok) return std::unexpected(ok.error());
  return bmp;
}

}  // namespace hs
