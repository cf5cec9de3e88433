#include "media/qwen_preprocess.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "media/patches.h"

namespace hs {
namespace {

// Python's round(x / y) * y: half to even, which is what nearbyint does in the default rounding
// mode.
int64_t round_to(int32_t side, int32_t multiple) {
  return static_cast<int64_t>(
             std::nearbyint(static_cast<double>(side) / static_cast<double>(multiple))) *
         multiple;
}

// `units` whole multiples, at least one.
int64_t whole(double units, int32_t multiple) {
  return std::max<int64_t>(static_cast<int64_t>(units), 1) * multiple;
}

struct Sides {
  int64_t width = 0;
  int64_t height = 0;
};

// The divisions stand in the order of the reference, because each of them rounds.
Sides shrink(double width, double height, const QwenProcessorConfig& config) {
  const auto block = static_cast<double>(config.block_side());
  const double beta = std::sqrt(height * width / static_cast<double>(config.max_pixels));
  return {whole(std::floor(width / beta / block), config.block_side()),
          whole(std::floor(height / beta / block), config.block_side())};
}

Sides enlarge(double width, double height, const QwenProcessorConfig& config) {
  const auto block = static_cast<double>(config.block_side());
  const double beta = std::sqrt(static_cast<double>(config.min_pixels) / (height * width));
  return {whole(std::ceil(width * beta / block), config.block_side()),
          whole(std::ceil(height * beta / block), config.block_side())};
}

}  // namespace

Result<QwenSize> qwen_smart_resize(int32_t width, int32_t height,
                                   const QwenProcessorConfig& config) {
  HS_CHECK(width > 0 && height > 0 && width <= 1 << 24 && height <= 1 << 24);
  HS_CHECK(config.min_pixels > 0 && config.max_pixels > 0 && config.block_side() > 0);
  const auto [shorter, longer] = std::minmax(width, height);
  if (longer > int64_t{shorter} * kQwenAspectRatioMax)
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("The image has {} x {} pixels; the longer side may be at most {} times "
                            "the shorter one.",
                            width, height, kQwenAspectRatioMax),
                "invalid_image");
  Sides sides{round_to(width, config.block_side()), round_to(height, config.block_side())};
  if (sides.width * sides.height > config.max_pixels)
    sides = shrink(width, height, config);
  else if (sides.width * sides.height < config.min_pixels)
    sides = enlarge(width, height, config);
  return QwenSize{static_cast<int32_t>(sides.width), static_cast<int32_t>(sides.height)};
}

int64_t qwen_patches_max(const QwenProcessorConfig& config) {
  const auto block = static_cast<double>(config.block_side());
  const auto min = static_cast<double>(config.min_pixels);
  const auto max = static_cast<double>(config.max_pixels);
  constexpr double kRatio = kQwenAspectRatioMax;
  // Enlarging: the sides of the exact area, at most the ratio apart, each rounded up by less than
  // a block.
  const double enlarged =
      min + block * (std::sqrt(min * kRatio) + std::sqrt(min / kRatio)) + block * block;
  // Shrinking: the shorter side does not go below a block, whatever the area.
  const bool one_block = std::sqrt(max / kRatio) < block;
  const double shrunk = one_block ? block * std::max(block, std::sqrt(max * kRatio)) : max;
  const auto blocks = static_cast<int64_t>(std::max({enlarged, shrunk, max}) / (block * block)) + 1;
  return blocks * config.merge_size * config.merge_size;
}

Result<ImagePatches> qwen_preprocess(const Image& image, const QwenProcessorConfig& config) {
  const auto size = qwen_smart_resize(image.width, image.height, config);
  if (!size) return std::unexpected(size.error());
  return make_patches(resize_bicubic(image, size->width, size->height), level_rules(config),
                      {.processor = {'q', 'w', 'e', 'n', '-', 'r', 'g', 'b'},
                       .patch_size = config.patch_size,
                       .merge_size = config.merge_size});
}

}  // namespace hs
