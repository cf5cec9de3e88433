#include "model/clip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace hs {

Result<ClipTower> ClipTower::load(WeightLoader& weights, const std::string& prefix, Device& device,
                                  const ClipConfig& config, std::vector<int32_t> feature_depths,
                                  bool drop_class, int32_t max_images) {
  ClipTower tower;
  tower.config_ = config;
  tower.feature_depths_ = std::move(feature_depths);
  tower.drop_class_ = drop_class;
  tower.max_images_ = max_images;
  tower.device_ = &device;
  tower.load_weights(weights, prefix);
  if (auto status = weights.status(); !status) return std::unexpected(std::move(status.error()));
  if (auto status = tower.allocate(max_images); !status) {
    return std::unexpected(std::move(status.error()));
  }
  return tower;
}

void ClipTower::load_weights(WeightLoader& weights, const std::string& prefix) {
  const int64_t dim = config_.dim;
  const std::string embeddings = prefix + ".embeddings";
  patch_embedding_ = weights.matrix(embeddings + ".patch_embedding.weight",
                                    {dim, 3, config_.patch_size, config_.patch_size});
  auto positions =
      weights.host_values(embeddings + ".position_embedding.weight", {config_.n_positions(), dim});
  const auto class_embedding = weights.host_values(embeddings + ".class_embedding", {dim});
  if (!weights.status()) return;
  for (size_t i = 0; i < class_embedding.size(); ++i) positions[i] += class_embedding[i];
  position_table_ = weights.upload_activations(positions);
  pre_norm_ = weights.layer_norm(prefix + ".pre_layrnorm", dim);

  const int32_t n_layers = *std::ranges::max_element(feature_depths_);
  for (int32_t i = 0; i < n_layers; ++i) {
    const std::string name = fmt::format("{}.encoder.layers.{}", prefix, i);
    Layer layer;
    layer.norm1 = weights.layer_norm(name + ".layer_norm1", dim);
    layer.qkv = weights.linear({{name + ".self_attn.q_proj", dim},
                                {name + ".self_attn.k_proj", dim},
                                {name + ".self_attn.v_proj", dim}},
                               dim, true);
    layer.out = weights.linear({{name + ".self_attn.out_proj", dim}}, dim, true);
    layer.norm2 = weights.layer_norm(name + ".layer_norm2", dim);
    layer.fc1 = weights.linear({{name + ".mlp.fc1", config_.ff_dim}}, dim, true);
    layer.fc2 = weights.linear({{name + ".mlp.fc2", dim}}, config_.ff_dim, true);
    layers_.push_back(std::move(layer));
  }
}

Status ClipTower::allocate(int32_t max_images) {
  const int64_t rows = int64_t{max_images} * config_.n_positions();
  const auto take = [&](Scratch& scratch, int64_t cols) -> Status {
    auto made = Scratch::allocate(*device_, rows * cols, device_->activation_dtype());
    if (!made) return std::unexpected(std::move(made.error()));
    scratch = std::move(*made);
    return {};
  };
  if (auto status = take(patches_, config_.patch_dim()); !status) return status;
  if (auto status = take(hidden_, config_.dim); !status) return status;
  if (auto status = take(normed_, config_.dim); !status) return status;

  std::vector<int32_t> starts;
  for (int32_t i = 0; i <= max_images; ++i) starts.push_back(i * config_.n_positions());
  auto buffer = device_->allocate(starts.size() * sizeof(int32_t));
  if (!buffer) return std::unexpected(std::move(buffer.error()));
  cu_seqlens_ = std::move(*buffer);
  device_->upload(starts.data(), cu_seqlens_.data(), starts.size() * sizeof(int32_t));
  return {};
}

int64_t ClipTower::wide_elements() const {
  return int64_t{max_images_} * config_.n_positions() * std::max(3 * config_.dim, config_.ff_dim);
}

void ClipTower::run(std::span<const ImagePatches* const> images, Scratch& wide, Matrix features) {
  HS_CHECK_LE(std::ssize(images), max_images_);
  const auto n_images = static_cast<int64_t>(images.size());
  const Matrix hidden = embed(images);
  take_features(hidden, n_images, 0, features);
  for (size_t i = 0; i < layers_.size(); ++i) {
    attention(layers_[i], hidden, n_images, wide);
    mlp(layers_[i], hidden, wide);
    take_features(hidden, n_images, static_cast<int32_t>(i) + 1, features);
  }
}

// x = LN([class; patches W^T] + positions). The class row of `patches` is zero, so the product
// leaves zero there and the first row of the position table, which holds class + position, makes it
// right.
Matrix ClipTower::embed(std::span<const ImagePatches* const> images) {
  const int64_t n_positions = config_.n_positions();
  const int64_t rows = std::ssize(images) * n_positions;
  const Matrix patches = patches_.view(rows, config_.patch_dim());
  for (size_t i = 0; i < images.size(); ++i) {
    HS_CHECK_EQ(images[i]->grid_height, config_.grid_side());
    HS_CHECK_EQ(images[i]->grid_width, config_.grid_side());
    const Matrix rows_of_image =
        patches.row_range(static_cast<int64_t>(i) * n_positions + 1, config_.n_patches());
    upload_activations(*device_, images[i]->data, rows_of_image, staging_);
  }
  Ops& ops = device_->ops();
  const Matrix hidden = hidden_.view(rows, config_.dim);
  const Matrix positions{position_table_.data(), device_->activation_dtype(), n_positions,
                         config_.dim, config_.dim};
  ops.linear(patches, patch_embedding_.packed, {}, hidden);
  ops.add_rows(hidden, positions);
  ops.layer_norm(hidden, pre_norm_.weight, pre_norm_.bias, config_.norm_eps, hidden);
  return hidden;
}

// x += softmax(q k^T / sqrt(d)) v W^T, over all positions of the same picture
void ClipTower::attention(const Layer& layer, Matrix hidden, int64_t n_images, Scratch& wide) {
  Ops& ops = device_->ops();
  const Matrix normed = normed_.view(hidden.rows, config_.dim);
  const Matrix qkv = wide.view(hidden.rows, 3 * config_.dim);
  const float scale = 1.0F / std::sqrt(static_cast<float>(config_.dim / config_.n_heads));
  ops.layer_norm(hidden, layer.norm1.weight, layer.norm1.bias, config_.norm_eps, normed);
  ops.linear(normed, layer.qkv.weight.packed, layer.qkv.bias, qkv);
  ops.packed_attention(qkv, cu_seqlens_.as<const int32_t>(), n_images, config_.n_heads, scale,
                       normed);
  ops.linear(normed, layer.out.weight.packed, layer.out.bias, hidden, Epilogue::kNone,
             /*accumulate=*/true);
}

// x += fc2(act(fc1(LN(x))))
void ClipTower::mlp(const Layer& layer, Matrix hidden, Scratch& wide) {
  Ops& ops = device_->ops();
  const Matrix normed = normed_.view(hidden.rows, config_.dim);
  const Matrix inner = wide.view(hidden.rows, config_.ff_dim);
  ops.layer_norm(hidden, layer.norm2.weight, layer.norm2.bias, config_.norm_eps, normed);
  ops.linear(normed, layer.fc1.weight.packed, layer.fc1.bias, inner, config_.activation);
  ops.linear(inner, layer.fc2.weight.packed, layer.fc2.bias, hidden, Epilogue::kNone,
             /*accumulate=*/true);
}

// Copies the hidden states to every column block whose depth this is, without class rows where they
// are dropped.
void ClipTower::take_features(Matrix hidden, int64_t n_images, int32_t depth, Matrix features) {
  const int64_t rows = rows_per_image();
  const int64_t skip = config_.n_positions() - rows;
  for (size_t j = 0; j < feature_depths_.size(); ++j) {
    if (feature_depths_[j] != depth) continue;
    const Matrix columns = features.col_range(static_cast<int64_t>(j) * config_.dim, config_.dim);
    for (int64_t i = 0; i < n_images; ++i) {
      device_->ops().copy(hidden.row_range(i * config_.n_positions() + skip, rows),
                          columns.row_range(i * rows, rows));
    }
  }
}

}  // namespace hs
