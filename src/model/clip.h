// The CLIP vision tower (Radford et al., 2021; ViT, Dosovitskiy et al., 2020), as LLaVA uses it:
// patches in, hidden states of chosen layers out. Pictures are packed: (n_images * n_positions,
// dim), the class position first in each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "media/image.h"
#include "model/clip_config.h"
#include "model/device_memory.h"
#include "model/weights.h"

namespace hs {

class ClipTower {
 public:
  // `feature_depths`: after how many layers to take the hidden states, one or more, each 0 ..
  // n_layers. Only the layers that these need are loaded. Weight names: PREFIX.embeddings...,
  // PREFIX.encoder.layers.N...
  static Result<ClipTower> load(WeightLoader& weights, const std::string& prefix, Device& device,
                                const ClipConfig& config, std::vector<int32_t> feature_depths,
                                bool drop_class, int32_t max_images);

  int32_t rows_per_image() const { return config_.n_positions() - (drop_class_ ? 1 : 0); }
  int64_t feature_dim() const { return int64_t{config_.dim} * std::ssize(feature_depths_); }
  // The most elements `wide` is used for.
  int64_t wide_elements() const;

  // Fills features (n_images * rows_per_image, feature_dim). `wide` is a work area. REQUIRES: at
  // most max_images pictures, each of the tower's grid.
  void run(std::span<const ImagePatches* const> images, Scratch& wide, Matrix features);

 private:
  struct Layer {
    LayerNormWeights norm1;
    LinearWeights qkv;
    LinearWeights out;
    LayerNormWeights norm2;
    LinearWeights fc1;
    LinearWeights fc2;
  };

  ClipTower() = default;
  void load_weights(WeightLoader& weights, const std::string& prefix);
  Status allocate(int32_t max_images);
  Matrix embed(std::span<const ImagePatches* const> images);
  void attention(const Layer& layer, Matrix hidden, int64_t n_images, Scratch& wide);
  void mlp(const Layer& layer, Matrix hidden, Scratch& wide);
  void take_features(Matrix hidden, int64_t n_images, int32_t depth, Matrix features);

  ClipConfig config_;
  std::vector<int32_t> feature_depths_;
  bool drop_class_ = false;
  int32_t max_images_ = 0;
  Device* device_ = nullptr;

  OwnedWeight patch_embedding_;  // (dim, patch_dim)
  Buffer position_table_;  // (n_positions, dim); the class embedding is added to its first row
  LayerNormWeights pre_norm_;
  std::vector<Layer> layers_;

  Buffer cu_seqlens_;  // (max_images + 1): every picture has the same length, so this never changes
  Scratch patches_;    // (max_images * n_positions, patch_dim); class rows stay zero
  Scratch hidden_;     // (max_images * n_positions, dim)
  Scratch normed_;     // (max_images * n_positions, dim)
  std::vector<uint16_t> staging_;
};

}  // namespace hs
