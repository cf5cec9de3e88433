// The last steps that Hugging Face's image processors share: 8-bit pixels to rescaled, normalised
// patches, and the hash that says what the model sees.
#pragma once

#include <cstdint>
#include <span>

#include "media/image.h"

namespace hs {

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

struct PatchLayout {
  char processor[8];  // keeps the hashes of different processors apart
  int32_t patch_size;
  int32_t merge_size;  // a side of the blocks of patches that stand together; 1: row by row
};

// Patches in block order: (block row, block column, row in the block, column in the block). What is
// left of a side after whole patches is left out; the grid holds whole blocks.
// Rescaling multiplies in float64 and rounds to float32; the normalisation computes in float32.
ImagePatches make_patches(const Image& pixels, const LevelRules& rules, const PatchLayout& layout);

}  // namespace hs
