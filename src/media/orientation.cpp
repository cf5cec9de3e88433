#include "media/orientation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hs {
namespace {

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kTypeShort = 3;
constexpr uint32_t kTypeLong = 4;
constexpr size_t kEntryBytes = 12;

// Reads integers of either byte order; outside the block they read as 0, which no caller takes for
// valid.
class TiffReader {
 public:
  TiffReader(std::span<const uint8_t> bytes, bool big_endian)
      : bytes_(bytes), big_endian_(big_endian) {}

  uint32_t u16(size_t at) const { return number(at, 2); }
  uint32_t u32(size_t at) const { return number(at, 4); }

 private:
  uint32_t number(size_t at, size_t n) const {
    if (at > bytes_.size() || bytes_.size() - at < n) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < n; ++i)
      value = (value << 8) | bytes_[at + (big_endian_ ? i : n - 1 - i)];
    return value;
  }

  std::span<const uint8_t> bytes_;
  bool big_endian_;
};

// Where a source pixel lands: target = origin + x * step_x + y * step_y, in pixels of the upright
// picture.
struct Placement {
  int64_t origin;
  int64_t step_x;
  int64_t step_y;
};

Placement placement(int orientation, int64_t width, int64_t height) {
  const int64_t w = width;
  const int64_t h = height;
  switch (orientation) {
    case 2:
      return {w - 1, -1, w};  // mirrored left to right
    case 3:
      return {w * h - 1, -1, -w};  // half a turn
    case 4:
      return {w * (h - 1), 1, -w};  // mirrored top to bottom
    case 5:
      return {0, h, 1};  // transposed
    case 6:
      return {h - 1, h, -1};  // needs a quarter turn clockwise
    case 7:
      return {w * h - 1, -h, -1};  // transposed over the other diagonal
    case 8:
      return {(w - 1) * h, -h, 1};  // needs a quarter turn counter-clockwise
    default:
      return {0, 1, w};
  }
}

}  // namespace

int exif_orientation(std::span<const uint8_t> tiff) {
  if (tiff.size() < 8) return 1;
  const bool big_endian = tiff[0] == 'M' && tiff[1] == 'M';
  if (!big_endian && !(tiff[0] == 'I' && tiff[1] == 'I')) return 1;
  const TiffReader reader(tiff, big_endian);
  if (reader.u16(2) != 42) return 1;
  const size_t directory = reader.u32(4);
  const uint32_t n_entries = reader.u16(directory);
  for (uint32_t i = 0; i < n_entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > tiff.size()) return 1;
    if (reader.u16(entry) != kOrientationTag) continue;
    const uint32_t type = reader.u16(entry + 2);
    if (reader.u32(entry + 4) != 1 || (type != kTypeShort && type != kTypeLong)) return 1;
    const uint32_t value = type == kTypeShort ? reader.u16(entry + 8) : reader.u32(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image apply_orientation(Image image, int orientation) {
  if (orientation == 1) return image;
  HS_CHECK(orientation >= 1 && orientation <= 8);
  const int64_t width = image.width;
  const int64_t height = image.height;
  const Placement place = placement(orientation, width, height);
  Image upright;
  upright.width = static_cast<int32_t>(orientation >= 5 ? height : width);
  upright.height = static_cast<int32_t>(orientation >= 5 ? width : height);
  upright.rgb.resize(image.rgb.size());
  // Square tiles, because for a quarter turn either the reads or the writes jump a whole row each.
  constexpr int64_t kTile = 32;
  for (int64_t y0 = 0; y0 < height; y0 += kTile) {
    for (int64_t x0 = 0; x0 < width; x0 += kTile) {
      for (int64_t y = y0; y < std::min(y0 + kTile, height); ++y) {
        for (int64_t x = x0; x < std::min(x0 + kTile, width); ++x) {
          const uint8_t* from = image.rgb.data() + (y * width + x) * 3;
          uint8_t* to =
              upright.rgb.data() + (place.origin + x * place.step_x + y * place.step_y) * 3;
          to[0] = from[0];
          to[1] = from[1];
          to[2] = from[2];
        }
      }
    }
  }
  return upright;
}

}  // namespace hs
