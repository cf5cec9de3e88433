// The last steps that Hugging Face's image processors share: rescale and normalise, as a table of
// what each 8-bit level becomes, and the hash of a picture under that table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "media/image.h"

namespace hs {

using PixelLevels = std::array<std::array<float, 256>, 3>;  // (channel, level)

struct LevelRules {
  bool do_rescale = true;
  double rescale_factor = 1.0 / 255.0;
  bool do_normalize = true;
  std::span<const float, 3> mean;
  std::span<const float, 3> std;
};

// Of a processor's settings.
template <typename ProcessorConfig>
LevelRules level_rules(const ProcessorConfig& config) {
  return {.do_rescale = config.do_rescale,
          .rescale_factor = config.rescale_factor,
          .do_normalize = config.do_normalize,
          .mean = config.mean,
          .std = config.std};
}

// Rescaling multiplies in float64 and rounds to float32; the normalisation computes in float32.
PixelLevels make_pixel_levels(const LevelRules& rules);

// The patches of a picture, not yet written. A remainder at its right and bottom is left out.
ImagePatches patch_grid(const Image& pixels, int32_t patch_size);

// One patch of `side` x `side` pixels in (channel, row, column) order. `corner`: its upper left
// pixel; `row_bytes` from one row of pixels to the next. Returns the end of what was written.
float* write_patch(const uint8_t* corner, size_t row_bytes, size_t side, const PixelLevels& levels,
                   float* out);

// SHA-256, cut to 128 bits, over `header`, levels and pixels: the same as over what the model sees,
// with a quarter of the bytes. `header` holds what else tells pictures apart: the preprocessor, the
// size, the patches; it has no padding.
void hash_pixels(std::span<const std::byte> header, const PixelLevels& levels, const Image& pixels,
                 uint64_t hash[2]);

}  // namespace hs
