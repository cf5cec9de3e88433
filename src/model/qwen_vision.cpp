#include "model/qwen_vision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "model/rope.h"

namespace hs {

namespace {

constexpr int32_t kDimMax = 1 << 18;
constexpr int32_t kHeadDimMax = 256;  // kernels/attention.h
constexpr float kNormEps = 1e-6F;     // of every norm; no config field has it
constexpr int64_t kMlpRows = 1024;    // rows that the MLP's inner numbers are in memory for

void read_full_attention(FieldReader& vision, QwenVisionConfig& config) {
  std::vector<int32_t> layers = vision.integers("fullatt_block_indexes", 0, 1 << 16);
  if (!vision.has("fullatt_block_indexes")) layers = {7, 15, 23, 31};
  config.sees_all.assign(static_cast<size_t>(config.n_layers), false);
  for (const int32_t layer : layers) {
    if (layer < config.n_layers) config.sees_all[static_cast<size_t>(layer)] = true;
  }
}

void check_sizes(FieldReader& vision, const QwenVisionConfig& config) {
  if (config.dim % config.n_heads != 0) {
    vision.complain("num_heads", fmt::format("is {}, which does not divide hidden_size {}",
                                             config.n_heads, config.dim));
  } else if (config.d_head() % 4 != 0 || config.d_head() > kHeadDimMax) {
    vision.complain("num_heads",
                    fmt::format("makes heads of {}; they must be a multiple of 4, at most {}",
                                config.d_head(), kHeadDimMax),
                    ErrorKind::kUnsupported);
  }
  const int32_t unit = config.patch_size * config.merge_size;
  if (config.window_size % unit != 0) {
    vision.complain("window_size",
                    fmt::format("is {}, which is no multiple of {} (patch_size x "
                                "spatial_merge_size)",
                                config.window_size, unit),
                    ErrorKind::kUnsupported);
  }
}

}  // namespace

ProjectorShape QwenVisionConfig::merger() const {
  const int64_t merged = int64_t{dim} * merge_area();
  return {.linear_1 = "visual.merger.mlp.0",
          .linear_2 = "visual.merger.mlp.2",
          .feature_dim = merged,
          .inner_dim = merged,
          .out_dim = out_dim};
}

QwenVisionConfig read_qwen_vision_config(FieldReader& vision) {
  QwenVisionConfig config;
  if (const auto type = vision.text("model_type", "qwen2_5_vl");
      type != "qwen2_5_vl" && type != "qwen2_5_vl_vision") {
    vision.complain("model_type", fmt::format("\"{}\" is not supported (qwen2_5_vl is)", type),
                    ErrorKind::kUnsupported);
  }
  config.dim = vision.integer("hidden_size", 1, kDimMax);
  config.ff_dim = vision.integer("intermediate_size", 1, kDimMax);
  config.n_layers = vision.integer("depth", 1, 1024);
  config.n_heads = vision.integer("num_heads", 1, 1024);
  config.out_dim = vision.integer("out_hidden_size", 1, kDimMax);
  config.patch_size = vision.integer("patch_size", 1, 256, 14);
  config.merge_size = vision.integer("spatial_merge_size", 1, 16, 2);
  config.temporal_patch_size = vision.integer("temporal_patch_size", 1, 16, 2);
  config.window_size = vision.integer("window_size", 1, 1 << 16, 112);
  const std::string channels = vision.has("in_channels") ? "in_channels" : "in_chans";
  if (vision.integer(channels, 1, 1024, 3) != 3) vision.complain(channels, "must be 3");
  if (const auto act = vision.text("hidden_act", "silu"); act != "silu" && act != "swish") {
    vision.complain("hidden_act", fmt::format("\"{}\" is not supported (silu is)", act),
                    ErrorKind::kUnsupported);
  }
  FieldReader rope = vision.child("rope_parameters");
  config.rope_theta = rope.number("rope_theta", 1.0 + 1e-6, 1e12, config.rope_theta);
  if (const auto type = rope.text("rope_type", "axial"); type != "axial" && type != "default") {
    rope.complain("rope_type", fmt::format("\"{}\" is not supported (axial is)", type),
                  ErrorKind::kUnsupported);
  }
  if (vision.failed()) return config;
  read_full_attention(vision, config);
  check_sizes(vision, config);
  return config;
}

Result<std::unique_ptr<QwenVision>> QwenVision::load(WeightLoader& weights, Device& device,
                                                     const QwenVisionConfig& config,
                                                     int64_t max_patches, bool projects) {
  HS_CHECK_GE(max_patches, config.merge_area());
  std::unique_ptr<QwenVision> vision(new QwenVision(device, config, max_patches));
  vision->load_weights(weights, projects);
  if (auto status = weights.status(); !status) return std::unexpected(std::move(status.error()));
  if (auto status = vision->allocate(); !status) return std::unexpected(std::move(status.error()));
  return vision;
}

void QwenVision::load_weights(WeightLoader& weights, bool projects) {
  const int64_t dim = config_.dim;
  const int64_t ff_dim = config_.ff_dim;
  load_patch_embedding(weights);
  for (int32_t i = 0; i < config_.n_layers; ++i) {
    const std::string name = fmt::format("visual.blocks.{}", i);
    Block block;
    block.norm1 = weights.vector(name + ".norm1.weight", dim);
    block.qkv = weights.linear({{name + ".attn.qkv", 3 * dim}}, dim, true);
    block.out = weights.linear({{name + ".attn.proj", dim}}, dim, true);
    block.norm2 = weights.vector(name + ".norm2.weight", dim);
    block.gate_up = weights.linear(
        {{name + ".mlp.gate_proj", ff_dim}, {name + ".mlp.up_proj", ff_dim}}, dim, true);
    block.down = weights.linear({{name + ".mlp.down_proj", dim}}, ff_dim, true);
    blocks_.push_back(std::move(block));
    if (!weights.status()) return;
  }
  merger_norm_ = weights.vector("visual.merger.ln_q.weight", dim);
  if (projects) merger_ = ProjectorWeights::load(weights, config_.merger());

  // The same frequencies for both axes, side by side. The longest side is that of a strip of
  // blocks.
  const int32_t half = config_.d_head() / 2;
  std::vector<float> frequencies = rope_frequencies({.theta = config_.rope_theta}, half, 1, 1);
  frequencies.insert(frequencies.end(), frequencies.begin(), frequencies.begin() + half / 2);
  const auto n_positions = static_cast<int32_t>(max_patches_ / config_.merge_size);
  const auto table = rope_table({}, frequencies, n_positions);
  rope_ = weights.upload(std::as_bytes(std::span(table)));
  rope_table_.cos = rope_.as<const float>();
  rope_table_.sin = rope_table_.cos + table.size() / 2;
  rope_table_.n_positions = n_positions;
  rope_table_.n_axes = 2;
  rope_table_.sections[0] = rope_table_.sections[1] = half / 2;
}

// The frames of a still picture are equal, so a patch's product with a frame's weights, summed over
// frames, is its product with the sum of these weights.
void QwenVision::load_patch_embedding(WeightLoader& weights) {
  const int64_t size = config_.patch_size;
  const auto values = weights.host_values(
      "visual.patch_embed.proj.weight", {config_.dim, 3, config_.temporal_patch_size, size, size});
  if (!weights.status()) return;
  const auto area = static_cast<size_t>(size * size);
  std::vector<float> sums;
  sums.reserve(static_cast<size_t>(config_.dim) * 3 * area);
  const auto n_frames = static_cast<size_t>(config_.temporal_patch_size);
  for (size_t channel = 0; channel < values.size(); channel += n_frames * area) {
    for (size_t pixel = 0; pixel < area; ++pixel) {
      float sum = 0;
      for (size_t frame = 0; frame < n_frames; ++frame) {
        sum += values[channel + frame * area + pixel];
      }
      sums.push_back(sum);
    }
  }
  patch_embedding_ = weights.pack_values(sums, config_.dim, config_.patch_dim());
}

int64_t QwenVision::wide_elements() const {
  const int64_t units = max_patches_ / config_.merge_area();
  const int64_t merged = int64_t{config_.dim} * config_.merge_area();
  return std::max({max_patches_ * config_.patch_dim(), max_patches_ * 3 * config_.dim,
                   std::min(max_patches_, kMlpRows) * 3 * config_.ff_dim,
                   units * (merged + config_.out_dim)});
}

Status QwenVision::allocate() {
  const std::pair<Scratch*, int64_t> areas[] = {{&hidden_, max_patches_ * config_.dim},
                                                {&normed_, max_patches_ * config_.dim},
                                                {&wide_, wide_elements()}};
  for (const auto& [scratch, elements] : areas) {
    auto made = Scratch::allocate(*device_, elements, device_->activation_dtype());
    if (!made) return std::unexpected(std::move(made.error()));
    *scratch = std::move(*made);
  }
  auto indices = QwenVisionIndices::allocate(*device_, max_patches_, config_.merge_size);
  if (!indices) return std::unexpected(std::move(indices.error()));
  indices_ = std::move(*indices);
  return {};
}

int32_t QwenVision::tokens_of(const ImagePatches& image) const {
  return image.grid_height / config_.merge_size * (image.grid_width / config_.merge_size);
}

Status QwenVision::encode(std::span<const ImagePatches* const> images, Matrix out) {
  layout_.set(images, config_.merge_size, config_.window_units());
  HS_CHECK_LE(layout_.n_patches(), max_patches_);
  HS_CHECK_EQ(out.rows, layout_.n_units());
  HS_CHECK_EQ(out.cols, merger_ ? int64_t{config_.out_dim} : config_.merger().feature_dim);
  indices_.upload(*device_, layout_);
  const Matrix hidden = embed(images);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    attention(blocks_[i], config_.sees_all[i], hidden);
    mlp(blocks_[i], hidden);
  }
  merge(hidden, out);
  return device_->sync();
}

// x = patches W^T, then from the pictures' order into that of the windows
Matrix QwenVision::embed(std::span<const ImagePatches* const> images) {
  const int64_t n = layout_.n_patches();
  const Matrix patches = wide_.view(n, config_.patch_dim());
  int64_t first = 0;
  for (const ImagePatches* image : images) {
    HS_CHECK_EQ(image->patch_dim, config_.patch_dim());
    const int64_t n_rows = int64_t{image->grid_height} * image->grid_width;
    upload_activations(*device_, image->data, patches.row_range(first, n_rows), staging_);
    first += n_rows;
  }
  const Matrix embedded = normed_.view(n, config_.dim);
  const Matrix hidden = hidden_.view(n, config_.dim);
  device_->ops().linear(patches, patch_embedding_.packed, {}, embedded);
  device_->ops().gather_rows(embedded, indices_.patch_of_row(), hidden);
  return hidden;
}

// x += softmax(q k^T / sqrt(d)) v W^T over the window or the picture, q and k rotated by their row
// and column
void QwenVision::attention(const Block& block, bool sees_all, Matrix hidden) {
  Ops& ops = device_->ops();
  const int64_t dim = config_.dim;
  const Matrix normed = normed_.view(hidden.rows, dim);
  const Matrix qkv = wide_.view(hidden.rows, 3 * dim);
  const int32_t* starts = sees_all ? indices_.image_starts() : indices_.window_starts();
  const auto n_segments = std::ssize(sees_all ? layout_.image_starts : layout_.window_starts) - 1;
  const float scale = 1.0F / std::sqrt(static_cast<float>(config_.d_head()));
  ops.rms_norm(hidden, block.norm1, kNormEps, normed);
  ops.linear(normed, block.qkv.weight.packed, block.qkv.bias, qkv);
  ops.rope_rotate(qkv.col_range(0, 2 * dim), config_.d_head(), rope_table_, indices_.positions());
  ops.packed_attention(qkv, starts, n_segments, config_.n_heads, scale, normed);
  ops.linear(normed, block.out.weight.packed, block.out.bias, hidden, Epilogue::kNone,
             /*accumulate=*/true);
}

// x += down(silu(gate(RMSNorm(x))) * up(RMSNorm(x))), some rows at a time: for large pictures the
// inner numbers would take more memory than everything else.
void QwenVision::mlp(const Block& block, Matrix hidden) {
  Ops& ops = device_->ops();
  const int64_t ff_dim = config_.ff_dim;
  for (int64_t first = 0; first < hidden.rows; first += kMlpRows) {
    const int64_t n = std::min(kMlpRows, hidden.rows - first);
    const Matrix rows = hidden.row_range(first, n);
    const Matrix normed = normed_.view(n, config_.dim);
    const Matrix gate_up = wide_.view(n, 2 * ff_dim);
    const Matrix inner = wide_.view(n, ff_dim, 2 * n * ff_dim);
    ops.rms_norm(rows, block.norm2, kNormEps, normed);
    ops.linear(normed, block.gate_up.weight.packed, block.gate_up.bias, gate_up);
    ops.silu_mul(gate_up, inner);
    ops.linear(inner, block.down.weight.packed, block.down.bias, rows, Epilogue::kNone,
               /*accumulate=*/true);
  }
}

// out = W_2 GELU(W_1 [RMSNorm(x) of a block's patches side by side]), or what stands in brackets,
// back in the pictures' order
void QwenVision::merge(Matrix hidden, Matrix out) {
  Ops& ops = device_->ops();
  const int64_t n_units = layout_.n_units();
  const int64_t merged = int64_t{config_.dim} * config_.merge_area();
  ops.rms_norm(hidden, merger_norm_, kNormEps, normed_.view(hidden.rows, config_.dim));
  const Matrix side_by_side = normed_.view(n_units, merged);
  if (!merger_) {
    ops.gather_rows(side_by_side, indices_.row_of_unit(), out);
    return;
  }
  const Matrix inner = wide_.view(n_units, merged);
  const Matrix embeddings = wide_.view(n_units, config_.out_dim, n_units * merged);
  merger_->run(ops, side_by_side, inner, embeddings);
  ops.gather_rows(embeddings, indices_.row_of_unit(), out);
}

}  // namespace hs
