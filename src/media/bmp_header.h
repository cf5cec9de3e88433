// The headers of a BMP file: everything but its pixels.
#pragma once

#include <cstdint>
#include <span>

#include "media/image.h"

namespace hs {

enum class BmpCoding { kPlain, kRle8, kRle4 };

// One channel of a pixel of 16 or 32 bits.
struct BmpChannel {
  uint32_t mask = 0;  // 0: the file has no such channel
  int shift = 0;
  uint32_t max = 0;  // mask >> shift

  // 0 to 255, rounded.
  uint8_t level(uint32_t pixel) const {
    if (max == 255) return static_cast<uint8_t>(pixel >> shift);
    if (max == 0) return 0;
    return static_cast<uint8_t>((uint64_t{(pixel & mask) >> shift} * 255 + max / 2) / max);
  }
};

struct BmpHeader {
  int64_t width = 0;
  int64_t height = 0;
  bool top_down = false;
  int bits = 0;  // of a pixel: 1, 2, 4, 8 (indices into the palette), 16, 24 or 32
  BmpCoding coding = BmpCoding::kPlain;
  BmpChannel red, green, blue, alpha;  // of 16 and 32 bits
  uint8_t palette[256][3] = {};        // RGB; an index outside the file's palette is black
  std::span<const uint8_t> pixels;     // the file from the first pixel on
};

// BITMAPCOREHEADER (12 bytes), BITMAPINFOHEADER (40), its extensions (52, 56, 108, 124) and OS/2's
// (64). Errors: those of decode_image; the size is not yet checked against limits.
Result<BmpHeader> read_bmp_header(std::span<const uint8_t> file);

}  // namespace hs
