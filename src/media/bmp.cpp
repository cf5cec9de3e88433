// BMP pixels: plain rows of indices or colours, and run lengths of indices.
#include <algorithm>
#include <utility>

#include "media/bmp_header.h"
#include "media/decode.h"

namespace hs {
namespace {

constexpr std::string_view kDamaged = "The BMP image is damaged or truncated.";

uint8_t* row_of(Image& image, const BmpHeader& bmp, int64_t y) {
  const int64_t row = bmp.top_down ? y : bmp.height - 1 - y;
  return image.rgb.data() + row * bmp.width * 3;
}

void write_indices(const BmpHeader& bmp, const uint8_t* in, uint8_t* out) {
  const int per_byte = 8 / bmp.bits;
  const int mask = (1 << bmp.bits) - 1;
  for (int64_t x = 0; x < bmp.width; ++x) {
    const int shift = 8 - bmp.bits * (1 + static_cast<int>(x % per_byte));  // the left one is high
    std::copy_n(bmp.palette[in[x / per_byte] >> shift & mask], 3, out + x * 3);
  }
}

uint32_t pixel_at(const BmpHeader& bmp, std::span<const uint8_t> row, int64_t x) {
  const auto at = static_cast<size_t>(x);
  return bmp.bits == 16 ? little_u16(row, at * 2) : little_u32(row, at * 4);
}

void write_masked(const BmpHeader& bmp, bool opaque, std::span<const uint8_t> in, uint8_t* out) {
  for (int64_t x = 0; x < bmp.width; ++x) {
    const uint32_t pixel = pixel_at(bmp, in, x);
    uint8_t rgb[3] = {bmp.red.level(pixel), bmp.green.level(pixel), bmp.blue.level(pixel)};
    if (!opaque)
      for (uint8_t& v : rgb) v = over_white(v, bmp.alpha.level(pixel));
    std::copy_n(rgb, 3, out + x * 3);
  }
}

void write_bgr(const BmpHeader& bmp, const uint8_t* in, uint8_t* out) {
  for (int64_t x = 0; x < bmp.width * 3; x += 3)
    for (int c = 0; c < 3; ++c) out[x + c] = in[x + 2 - c];
}

// Rows of 32-bit words, the first one at the bottom. The last may end where its pixels do.
struct PlainRows {
  size_t used_bytes;
  size_t stride;

  explicit PlainRows(const BmpHeader& bmp)
      : used_bytes(static_cast<size_t>((bmp.width * bmp.bits + 7) / 8)),
        stride((used_bytes + 3) / 4 * 4) {}
  bool fit(const BmpHeader& bmp) const {
    return bmp.pixels.size() >= stride * static_cast<size_t>(bmp.height - 1) + used_bytes;
  }
  std::span<const uint8_t> row(const BmpHeader& bmp, int64_t y) const {
    return bmp.pixels.subspan(static_cast<size_t>(y) * stride, used_bytes);
  }
};

// A channel that is 0 everywhere is one that its writer left unset, as browsers see it, too.
bool is_opaque(const BmpHeader& bmp, const PlainRows& rows) {
  if (bmp.alpha.mask == 0) return true;
  for (int64_t y = 0; y < bmp.height; ++y) {
    const std::span<const uint8_t> row = rows.row(bmp, y);
    for (int64_t x = 0; x < bmp.width; ++x)
      if ((pixel_at(bmp, row, x) & bmp.alpha.mask) != 0) return false;
  }
  return true;
}

void decode_plain(const BmpHeader& bmp, const PlainRows& rows, Image& image) {
  const bool opaque = is_opaque(bmp, rows);
  for (int64_t y = 0; y < bmp.height; ++y) {
    const std::span<const uint8_t> in = rows.row(bmp, y);
    uint8_t* out = row_of(image, bmp, y);
    if (bmp.bits <= 8)
      write_indices(bmp, in.data(), out);
    else if (bmp.bits == 24)
      write_bgr(bmp, in.data(), out);
    else
      write_masked(bmp, opaque, in, out);
  }
}

// Draws runs of indices from the bottom left; what lies outside a row is left out.
class RleCanvas {
 public:
  RleCanvas(const BmpHeader& bmp, Image& image) : bmp_(bmp), image_(image) {}

  void put(int index) {
    if (x_ < bmp_.width && y_ < bmp_.height)
      std::copy_n(bmp_.palette[index], 3, row_of(image_, bmp_, y_) + x_ * 3);
    ++x_;
  }
  void skip(int right, int up) {
    x_ += right;
    y_ += up;
  }
  void end_line() {
    x_ = 0;
    ++y_;
  }
  bool full() const { return y_ >= bmp_.height || (y_ == bmp_.height - 1 && x_ >= bmp_.width); }

 private:
  const BmpHeader& bmp_;
  Image& image_;
  int64_t x_ = 0;
  int64_t y_ = 0;
};

// The index of pixel i of a run: 8 bits each, or 4 with the first in the high half.
int run_index(const BmpHeader& bmp, const uint8_t* bytes, int i) {
  if (bmp.coding == BmpCoding::kRle8) return bytes[i];
  return i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15;
}

// False: the data ends before the picture does.
bool decode_rle(const BmpHeader& bmp, Image& image) {
  constexpr uint8_t kEndOfLine = 0;
  constexpr uint8_t kEndOfPicture = 1;
  constexpr uint8_t kDelta = 2;
  RleCanvas canvas(bmp, image);
  std::span<const uint8_t> in = bmp.pixels;
  while (!canvas.full()) {
    if (in.size() < 2) return false;
    const int count = in[0];
    const uint8_t value = in[1];
    in = in.subspan(2);
    if (count > 0) {  // one byte over and over
      const uint8_t pair[2] = {value, value};
      for (int i = 0; i < count; ++i) canvas.put(run_index(bmp, pair, i % 2));
    } else if (value == kEndOfLine) {
      canvas.end_line();
    } else if (value == kEndOfPicture) {
      return true;
    } else if (value == kDelta) {
      if (in.size() < 2) return false;
      canvas.skip(in[0], in[1]);
      in = in.subspan(2);
    } else {  // `value` pixels as they are, padded to 16 bits
      const size_t used = bmp.coding == BmpCoding::kRle8 ? value : (value + 1U) / 2;
      if (in.size() < used) return false;
      for (int i = 0; i < value; ++i) canvas.put(run_index(bmp, in.data(), i));
      in = in.subspan(std::min(in.size(), used + (used & 1)));
    }
  }
  return true;
}

void fill(Image& image, const uint8_t (&rgb)[3]) {
  for (size_t i = 0; i < image.rgb.size(); i += 3) std::copy_n(rgb, 3, image.rgb.data() + i);
}

}  // namespace

Result<Image> decode_bmp(std::span<const uint8_t> file, const ImageLimits& limits) {
  const auto bmp = read_bmp_header(file);
  if (!bmp) return std::unexpected(bmp.error());
  if (const Status ok = check_image_size(bmp->width, bmp->height, limits); !ok)
    return std::unexpected(ok.error());
  const PlainRows rows(*bmp);
  const bool plain = bmp->coding == BmpCoding::kPlain;
  if (plain && !rows.fit(*bmp)) return invalid_image(std::string(kDamaged));
  Image image = white_image(bmp->width, bmp->height);
  if (plain) {
    decode_plain(*bmp, rows, image);
    return image;
  }
  fill(image, bmp->palette[0]);  // what the runs leave out
  if (!decode_rle(*bmp, image)) return invalid_image(std::string(kDamaged));
  return image;
}

}  // namespace hs
