// PNG (ISO/IEC 15948) through libspng. The chunks are walked here first, and only those that make
// pixels reach the library: text, profiles and other side data can then neither cost memory nor
// fail a good picture, and of an animation there is only the picture that a program without
// animation shows.
#include <spng.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "media/decode.h"
#include "media/orientation.h"

namespace hs {
namespace {

constexpr std::string_view kDamaged = "The PNG image is damaged or truncated.";
constexpr size_t kSignatureBytes = 8;
constexpr size_t kFrameBytes = 12;  // length, type and checksum around a chunk's data

struct PngWalk {
  std::vector<std::span<const uint8_t>>
      kept;  // signature and pixel-making chunks, in order, joined where adjacent
  int orientation = 1;
  size_t data_bytes = 0;  // of the compressed pixels
  bool complete = false;  // the IEND chunk is there
};

uint32_t read_u32(std::span<const uint8_t> bytes) {
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | bytes[3];
}

// Critical chunks start with a capital letter; tRNS is the one other that changes pixels.
bool makes_pixels(std::string_view type) {
  return (type[0] & 0x20) == 0 || type == "tRNS";
}

void keep(std::span<const uint8_t> chunk, std::vector<std::span<const uint8_t>>& kept) {
  if (!kept.empty() && kept.back().data() + kept.back().size() == chunk.data())
    kept.back() = {kept.back().data(), kept.back().size() + chunk.size()};
  else
    kept.push_back(chunk);
}

PngWalk walk_chunks(std::span<const uint8_t> file) {
  PngWalk walk;
  keep(file.first(kSignatureBytes), walk.kept);
  size_t at = kSignatureBytes;
  while (file.size() - at >= kFrameBytes) {
    const size_t length = read_u32(file.subspan(at));
    if (length > file.size() - at - kFrameBytes) break;
    const std::string_view type(reinterpret_cast<const char*>(file.data() + at + 4), 4);
    const std::span<const uint8_t> data = file.subspan(at + 8, length);
    if (type == "eXIf") walk.orientation = exif_orientation(data);
    if (type == "IDAT") walk.data_bytes += length;
    if (makes_pixels(type)) keep(file.subspan(at, length + kFrameBytes), walk.kept);
    at += length + kFrameBytes;
    if (type == "IEND") {
      walk.complete = true;
      break;
    }
  }
  return walk;
}

// The kept chunks as one stream for libspng.
struct ChunkReader {
  const std::vector<std::span<const uint8_t>>& pieces;
  size_t piece = 0;
  size_t at = 0;

  static int read(spng_ctx* /*context*/, void* user, void* target, size_t length) {
    auto& self = *static_cast<ChunkReader*>(user);
    auto* to = static_cast<uint8_t*>(target);
    while (length > 0) {
      if (self.piece == self.pieces.size()) return SPNG_IO_EOF;
      const std::span<const uint8_t> rest = self.pieces[self.piece].subspan(self.at);
      const size_t n = std::min(length, rest.size());
      std::copy_n(rest.data(), n, to);
      to += n;
      length -= n;
      self.at += n;
      if (n == rest.size()) {
        ++self.piece;
        self.at = 0;
      }
    }
    return 0;
  }
};

struct SpngDelete {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};

// Both in [0, 65535]: over white as round((v * a + max * (max - a)) / max), then to 8 bits.
uint8_t over_white_16(uint32_t v, uint32_t a) {
  const uint64_t blended = (uint64_t{v} * a + uint64_t{65535} * (65535 - a) + 32767) / 65535;
  return static_cast<uint8_t>((blended * 255 + 32767) / 65535);
}

void flatten_rgba8(const uint8_t* rgba, uint8_t* rgb) {
  for (size_t c = 0; c < 3; ++c) rgb[c] = over_white(rgba[c], rgba[3]);
}
void flatten_rgba16(const uint8_t* rgba, uint8_t* rgb) {
  uint16_t pixel[4];  // the library writes the host's byte order
  std::memcpy(pixel, rgba, sizeof pixel);
  for (size_t c = 0; c < 3; ++c) rgb[c] = over_white_16(pixel[c], pixel[3]);
}

// The columns of a row that one pass of an interlaced file fills; all of them otherwise.
struct Columns {
  size_t first = 0;
  size_t step = 1;
};
Columns columns_of(const spng_ihdr& header, int pass) {
  constexpr Columns kAdam7[] = {{0, 8}, {4, 8}, {0, 4}, {2, 4}, {0, 2}, {1, 2}, {0, 1}};
  return header.interlace_method == 0 ? Columns{} : kAdam7[pass];
}

// Decodes row by row and flattens to RGB, so that the wider pixels exist only for a row.
template <int format, size_t pixel_bytes, auto flatten>
bool decode_and_flatten(spng_ctx* context, const spng_ihdr& header, Image& image) {
  if (spng_decode_image(context, nullptr, 0, format, SPNG_DECODE_TRNS | SPNG_DECODE_PROGRESSIVE) !=
      0)
    return false;
  std::vector<uint8_t> row(header.width * pixel_bytes);
  for (;;) {
    spng_row_info info{};
    int rc = spng_get_row_info(context, &info);
    if (rc == SPNG_EOI) return true;  // as when the last pass has no rows
    if (rc == 0) rc = spng_decode_row(context, row.data(), row.size());
    if (rc != 0 && rc != SPNG_EOI) return false;
    uint8_t* rgb = image.rgb.data() + size_t{info.row_num} * header.width * 3;
    const Columns columns = columns_of(header, info.pass);
    for (size_t x = columns.first; x < header.width; x += columns.step)
      flatten(row.data() + x * pixel_bytes, rgb + x * 3);
    if (rc == SPNG_EOI) return true;  // that was the last row
  }
}

bool decode_pixels(spng_ctx* context, const spng_ihdr& header, Image& image) {
  spng_trns transparency{};
  const bool alpha = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ||
                     header.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA ||
                     spng_get_trns(context, &transparency) == 0;
  if (header.bit_depth == 16)
    return decode_and_flatten<SPNG_FMT_RGBA16, 8, flatten_rgba16>(context, header, image);
  if (alpha) return decode_and_flatten<SPNG_FMT_RGBA8, 4, flatten_rgba8>(context, header, image);
  return spng_decode_image(context, image.rgb.data(), image.rgb.size(), SPNG_FMT_RGB8, 0) == 0;
}

// Deflate shrinks to a 1032nd at best: data that cannot reach the size its header claims is cut
// off, and nothing is allocated for it.
bool may_hold(size_t data_bytes, const spng_ihdr& header) {
  constexpr uint64_t kRatioMax = 1032;
  constexpr uint64_t kChannels[] = {1, 0, 3, 1, 2, 0, 4};  // by colour type
  const uint64_t bits = kChannels[header.color_type] * header.bit_depth * header.width;
  return data_bytes * kRatioMax >= (bits + 7) / 8 * header.height;
}

}  // namespace

Result<Image> decode_png(std::span<const uint8_t> file, const ImageLimits& limits) {
  const PngWalk walk = walk_chunks(file);
  const std::unique_ptr<spng_ctx, SpngDelete> context(spng_ctx_new(0));
  if (!context) return fail(ErrorKind::kResourceExhausted, "There is no memory to decode images.");
  ChunkReader reader{walk.kept};
  spng_ihdr header{};
  if (spng_set_png_stream(context.get(), ChunkReader::read, &reader) != 0 ||
      spng_get_ihdr(context.get(), &header) != 0)
    return invalid_image(std::string(kDamaged));
  if (const Status ok = check_image_size(header.width, header.height, limits); !ok)
    return std::unexpected(ok.error());
  if (!walk.complete || !may_hold(walk.data_bytes, header))
    return invalid_image(std::string(kDamaged));

  Image image;
  image.width = static_cast<int32_t>(header.width);
  image.height = static_cast<int32_t>(header.height);
  image.rgb.resize(size_t{header.width} * header.height * 3);
  // Reading on to IEND checks what follows the pixels.
  if (!decode_pixels(context.get(), header, image) || spng_decode_chunks(context.get()) != 0)
    return invalid_image(std::string(kDamaged));
  return apply_orientation(std::move(image), walk.orientation);
}

}  // namespace hs
