// Hugging Face's Qwen2VLImageProcessor for one still picture: any size, resized to a near multiple
// of the merge block, patches in merge order. Pure functions, any thread.
//
// Source: transformers/models/qwen2_vl/image_processing_pil_qwen2_vl.py, 5.24.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "media/image.h"

namespace hs {

// Longer side : shorter side of what is accepted.
constexpr int32_t kQwenAspectRatioMax = 200;

struct QwenProcessorConfig {
  int64_t min_pixels = 56 * 56;  // width * height after resizing
  int64_t max_pixels = 28 * 28 * 1280;
  int32_t patch_size = 14;
  int32_t merge_size = 2;           // a side of the block of patches that becomes one token
  int32_t temporal_patch_size = 2;  // frames in a patch; those of a still picture are equal
  bool do_rescale = true;
  bool do_normalize = true;
  double rescale_factor = 1.0 / 255.0;
  float mean[3] = {0.48145466F, 0.4578275F, 0.40821073F};
  float std[3] = {0.26862954F, 0.26130258F, 0.27577711F};

  int32_t block_side() const { return patch_size * merge_size; }  // pixels
};

struct QwenSize {
  int32_t width = 0;
  int32_t height = 0;
  bool operator==(const QwenSize&) const = default;
};

// smart_resize: both sides multiples of config.block_side(), the area within [min_pixels,
// max_pixels] where the aspect ratio lets it (qwen_patches_max() says how far it may lie beyond),
// the aspect ratio kept as well as possible. kInvalidArgument "invalid_image": the aspect ratio is
// over kQwenAspectRatioMax. REQUIRES: sides from 1 to 2^24, config sizes > 0.
Result<QwenSize> qwen_smart_resize(int32_t width, int32_t height,
                                   const QwenProcessorConfig& config);

// No picture gets more patches than this under `config`. A multiple of merge_size^2.
int64_t qwen_patches_max(const QwenProcessorConfig& config);

// Rows of `data` are patches in merge order: (block row, block column, row in the block, column in
// the block), each the (channel, row, column) pixels of ONE frame. Grid in patches, before merging.
// Bicubic as in Pillow, float64 rescale, float32 normalise. Errors: those of qwen_smart_resize.
Result<ImagePatches> qwen_preprocess(const Image& image, const QwenProcessorConfig& config);

}  // namespace hs
