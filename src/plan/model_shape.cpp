#include "plan/model_shape.h"

#include <fmt/format.h>

#include "media/qwen_preprocess.h"

namespace hs {

int64_t LanguageShape::layer_parameters() const {
  const int64_t attention = int64_t{dim} * d_head * (2 * n_heads + 2 * n_kv_heads);
  const int64_t mlp = int64_t{3} * dim * ff_dim;
  return n_layers * (attention + mlp);
}

int64_t LanguageShape::parameters() const {
  return layer_parameters() + head_parameters() * (tied ? 1 : 2);
}

int64_t ModelShape::vision_parameters() const {
  const VisionShape& v = vision;
  const int64_t layer = int64_t{4} * v.dim * v.dim + int64_t{v.ff_matrices} * v.dim * v.ff_dim;
  const int64_t projector = v.pre_dim() * v.projector_dim + int64_t{v.projector_dim} * language.dim;
  return v.n_layers * layer + int64_t{v.patch_dim} * v.dim + projector;
}

Result<int32_t> ModelShape::image_rows(PictureSize size) const {
  if (vision.fixed_rows > 0) return vision.fixed_rows;
  QwenProcessorConfig config;
  config.patch_size = vision.patch_size;
  // The merge factor is a square: 4 patches in a block of 2 x 2.
  while (config.merge_size * config.merge_size > vision.merge) --config.merge_size;
  while (config.merge_size * config.merge_size < vision.merge) ++config.merge_size;
  config.min_pixels = vision.min_pixels;
  config.max_pixels = vision.max_pixels;
  constexpr int32_t kSideMax = 1 << 24;
  if (size.width < 1 || size.height < 1 || size.width > kSideMax || size.height > kSideMax) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("a picture of {} x {} pixels is none", size.width, size.height));
  }
  const auto scaled = qwen_smart_resize(size.width, size.height, config);
  if (!scaled) return std::unexpected(scaled.error());
  const int32_t side = config.block_side();
  return (scaled->width / side) * (scaled->height / side);
}

double ModelShape::projector_flops(int32_t n_rows) const {
  const auto weights = static_cast<double>(vision.pre_dim() * vision.projector_dim +
                                           int64_t{vision.projector_dim} * language.dim);
  return 2.0 * n_rows * weights;
}

double ModelShape::encode_flops(int32_t n_rows) const {
  const VisionShape& v = vision;
  const auto patches = static_cast<double>(n_patches(n_rows));
  const double positions = patches + (v.class_token ? 1 : 0);
  const double layer = 4.0 * v.dim * v.dim + static_cast<double>(v.ff_matrices) * v.dim * v.ff_dim;
  const double products = 2.0 * positions * layer * v.n_layers;
  // Scores and weighted values: 2 + 2 operations a pair of positions and number.
  const double full = 4.0 * positions * positions * v.dim * v.n_full_layers;
  const double windowed = 4.0 * positions * v.window * v.dim * (v.n_layers - v.n_full_layers);
  const double patching = 2.0 * patches * v.patch_dim * v.dim;
  return products + full + windowed + patching + projector_flops(n_rows);
}

int64_t ModelShape::kv_token_bytes(int32_t value_bytes) const {
  return int64_t{2} * language.n_layers * language.n_kv_heads * language.d_head * value_bytes;
}

}  // namespace hs
