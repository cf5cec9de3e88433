// What config.json says about a CLIP vision tower, and what preprocessor_config.json says about its
// pictures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "kernels/linear.h"
#include "media/image.h"
#include "model/json_fields.h"

namespace hs {

struct ClipConfig {
  int32_t dim = 0;
  int32_t ff_dim = 0;
  int32_t n_layers = 0;
  int32_t n_heads = 0;
  int32_t image_size = 0;  // side, pixels
  int32_t patch_size = 0;
  float norm_eps = 0;
  Epilogue activation = Epilogue::kQuickGelu;

  int32_t grid_side() const { return image_size / patch_size; }
  int32_t n_patches() const { return grid_side() * grid_side(); }
  int32_t n_positions() const { return n_patches() + 1; }  // the class position first
  int32_t patch_dim() const { return 3 * patch_size * patch_size; }
};

// Fields that are left out have CLIPVisionConfig's defaults; when the whole config is `absent`,
// those of LLaVA-1.5's tower (ViT-L/14 at 336 pixels).
ClipConfig read_clip_config(FieldReader& vision, bool absent);

// The epilogue for an activation's name in Hugging Face configs; a complaint about `key` when there
// is none.
Epilogue read_activation(FieldReader& reader, std::string_view key, std::string_view fallback);

// How a picture becomes the tower's input.
struct ClipPreprocessing {
  ClipProcessorConfig clip;
  // Above zero: the picture is first resized to exactly this, whatever its aspect ratio ("size"
  // gives both sides).
  int32_t exact_width = 0;
  int32_t exact_height = 0;
};

// Reads the image processor's fields and checks that pictures come out as the tower wants them.
ClipPreprocessing read_clip_preprocessing(FieldReader& processor, const ClipConfig& tower);

}  // namespace hs
