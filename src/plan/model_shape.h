// The sizes of a vision-language model that decide bytes and time: what config.json says, without
// weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hs {

struct PictureSize {
  int32_t width = 0;  // pixels
  int32_t height = 0;
};

// Layers as they run: LLaVA takes its features from the second last, so the last is not counted.
struct VisionShape {
  int32_t n_layers = 0;
  int32_t n_full_layers = 0;  // of those, attending to the whole picture; the others to a window
  int32_t dim = 0;
  int32_t ff_dim = 0;
  int32_t ff_matrices = 2;  // 3: gated
  int32_t patch_size = 0;   // pixels
  int32_t patch_dim = 0;    // numbers of a patch
  int32_t window = 0;       // patches that a windowed layer's patch attends to
  bool class_token = false;
  int32_t merge = 1;       // patches that become one row
  int32_t image_size = 0;  // side of every picture, pixels; 0: any size
  int32_t fixed_rows = 0;  // of every picture; 0: from its size
  int64_t min_pixels = 0;  // pictures of any size are scaled to between these
  int64_t max_pixels = 0;
  int32_t projector_dim = 0;  // between the projector's two matrices

  // Numbers of one row before the projector.
  int64_t pre_dim() const { return int64_t{dim} * merge; }
};

struct LanguageShape {
  int32_t n_layers = 0;
  int32_t dim = 0;
  int32_t ff_dim = 0;
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;
  int32_t d_head = 0;
  int32_t vocab = 0;
  int32_t max_positions = 0;
  bool tied = false;  // embedding table and output matrix are one

  // What every token is multiplied with, and what every sampled one is.
  int64_t layer_parameters() const;
  int64_t head_parameters() const { return int64_t{vocab} * dim; }
  int64_t parameters() const;
};

struct ModelShape {
  std::string name;
  std::string source;  // where the numbers were published, or the file they come from
  VisionShape vision;
  LanguageShape language;

  int64_t vision_parameters() const;
  // Rows of the language model's input that the picture becomes.
  // kInvalidArgument: a size that the model's preprocessing refuses.
  Result<int32_t> image_rows(PictureSize size) const;
  int64_t n_patches(int32_t n_rows) const { return int64_t{n_rows} * vision.merge; }
  // Floating point operations of tower and projector for a picture of so many rows.
  double encode_flops(int32_t n_rows) const;
  double projector_flops(int32_t n_rows) const;
  // Of the keys and values of one token, all layers. value_bytes: 2 for 16-bit floats.
  int64_t kv_token_bytes(int32_t value_bytes) const;
};

// The shapes that come with the program, by name.
Result<std::vector<ModelShape>> read_model_shapes(std::string_view toml, std::string_view file);

// A Hugging Face config.json. Errors name the file and the field; a config without a vision part is
// kUnsupported. The towers known in detail are CLIP's and Qwen2.5-VL's; any other is taken as a
// plain transformer of its layers, dim and intermediate size.
Result<ModelShape> read_model_config(std::string_view json, std::string_view file);
// `path`: the file, or a folder with one.
Result<ModelShape> read_model_config(const std::filesystem::path& path);

}  // namespace hs
