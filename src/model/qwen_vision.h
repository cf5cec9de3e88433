// The vision tower of Qwen2.5-VL (Bai et al., 2025): patches of pictures of any size in, embeddings
// of the language model's width out, or what the merger's linear layers would take. Most layers
// attend inside windows of the picture, some over all of it; blocks of merge_size x merge_size
// patches become one embedding.
//
// Pictures are packed one behind the other and there are no padding rows: a window is a segment of
// rows, so ragged windows at the edges are only shorter segments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "media/image.h"
#include "model/device_memory.h"
#include "model/json_fields.h"
#include "model/model.h"
#include "model/projector.h"
#include "model/qwen_vision_layout.h"
#include "model/weights.h"

namespace hs {

struct QwenVisionConfig {
  int32_t dim = 0;
  int32_t ff_dim = 0;
  int32_t n_layers = 0;
  int32_t n_heads = 0;  // divides dim; dim / n_heads is a multiple of 4, at most 256
  int32_t out_dim = 0;  // of an embedding
  int32_t patch_size = 14;
  int32_t merge_size = 2;
  int32_t temporal_patch_size = 2;  // frames in a patch
  int32_t window_size = 112;        // pixels; a multiple of patch_size * merge_size
  double rope_theta = 10000.0;
  std::vector<bool> sees_all;  // (n_layers): attends over the whole picture, not its window

  int32_t d_head() const { return dim / n_heads; }
  int32_t patch_dim() const { return 3 * patch_size * patch_size; }
  int32_t merge_area() const { return merge_size * merge_size; }
  int32_t window_units() const { return window_size / (patch_size * merge_size); }
  ProjectorShape merger() const;
};

// Reads vision_config; complaints go to the reader.
QwenVisionConfig read_qwen_vision_config(FieldReader& vision);

class QwenVision final : public VisionModel {
 public:
  // Weight names: visual.patch_embed..., visual.blocks.N..., visual.merger... `max_patches` sizes
  // the work area: patches of all pictures in one encode(), at least one merged block of them.
  // Without `projects` a row is the features of a block's patches side by side.
  static Result<std::unique_ptr<QwenVision>> load(WeightLoader& weights, Device& device,
                                                  const QwenVisionConfig& config,
                                                  int64_t max_patches, bool projects = true);

  int32_t tokens_of(const ImagePatches& image) const override;
  // REQUIRES: rows in merge order, grids that are multiples of merge_size, at most max_patches in
  // all.
  Status encode(std::span<const ImagePatches* const> images, Matrix out) override;

 private:
  struct Block {
    OwnedVector norm1;
    LinearWeights qkv;
    LinearWeights out;
    OwnedVector norm2;
    LinearWeights gate_up;
    LinearWeights down;
  };

  QwenVision(Device& device, const QwenVisionConfig& config, int64_t max_patches)
      : device_(&device), config_(config), max_patches_(max_patches) {}
  void load_weights(WeightLoader& weights, bool projects);
  void load_patch_embedding(WeightLoader& weights);
  Status allocate();
  int64_t wide_elements() const;
  Matrix embed(std::span<const ImagePatches* const> images);
  void attention(const Block& block, bool sees_all, Matrix hidden);
  void mlp(const Block& block, Matrix hidden);
  void merge(Matrix hidden, Matrix out);

  Device* device_;
  QwenVisionConfig config_;
  int64_t max_patches_;

  OwnedWeight patch_embedding_;  // (dim, patch_dim): one frame's patches
  std::vector<Block> blocks_;
  OwnedVector merger_norm_;
  std::optional<ProjectorWeights> merger_;
  Buffer rope_;  // cos and sin tables
  RopeTable rope_table_;

  QwenVisionLayout layout_;
  QwenVisionIndices indices_;
  Scratch hidden_;  // (max_patches, dim)
  Scratch normed_;  // (max_patches, dim)
  Scratch wide_;    // patches, or qkv, or some rows of the MLP, or the merger
  std::vector<uint16_t> staging_;
};

}  // namespace hs
