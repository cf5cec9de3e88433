#include "model/llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "model/sharded_language.h"
#include "model/step_padding.h"

namespace hs {

namespace {

constexpr int64_t kLogitRows = 64;  // rows whose logits are in memory at one time

}  // namespace

Llama::Llama(Device& device, const LlamaConfig& config, const LlamaOptions& options,
             const LlamaShard& shard, Communicator* group)
    : device_(&device), config_(config), options_(options), shard_(shard), group_(group) {
  layout_ = {options.kv_dtype, options.block_size, config.n_kv_heads, config.d_head};
}

Result<std::unique_ptr<Llama>> Llama::load(WeightLoader& weights, Device& device,
                                           const LlamaConfig& config, const LlamaOptions& options,
                                           const LlamaShard& shard, Communicator* group) {
  HS_CHECK_EQ(shard.n_ranks > 1, group != nullptr);
  std::unique_ptr<Llama> model(new Llama(device, config_of(config, shard), options, shard, group));
  model->load_weights(weights, config);
  if (auto status = weights.status(); !status) return std::unexpected(std::move(status.error()));
  if (auto status = model->allocate(); !status) return std::unexpected(std::move(status.error()));
  return model;
}

void Llama::load_weights(WeightLoader& weights, const LlamaConfig& whole) {
  if (weights.has(fmt::format("layers.{}.input_layernorm.weight", config_.n_layers))) {
    weights.fail_with(
        {ErrorKind::kDataLoss,
         fmt::format("config.json: num_hidden_layers is {}, but the weights have more layers",
                     config_.n_layers),
         "", ""});
  }
  if (has_ends()) load_embeddings(weights);
  const size_t bytes_before_layers = weights.weight_bytes();
  for (int32_t i = 0; i < config_.n_layers; ++i) {
    layers_.push_back(load_layer(weights, whole, i));
    if (!weights.status()) return;
  }
  layer_weight_bytes_ = weights.weight_bytes() - bytes_before_layers;
  if (has_ends()) load_head(weights);
  make_rope_table(weights);
}

// The biases of o and down are added to a sum over all ranks: by the first, so that they count
// once.
Llama::Layer Llama::load_layer(WeightLoader& weights, const LlamaConfig& whole,
                               int32_t index) const {
  const int64_t dim = whole.dim;
  const int64_t d_head = whole.d_head;
  const int64_t q_dim = whole.n_heads * d_head;
  const int64_t kv_dim = whole.n_kv_heads * d_head;
  const Slice q{shard_.heads.first * d_head, shard_.heads.size * d_head};
  const Slice kv{shard_.kv_heads.first * d_head, shard_.kv_heads.size * d_head};
  const bool first = shard_.rank == 0;
  const std::string name = fmt::format("layers.{}", index);
  Layer layer;
  layer.attention_norm = weights.vector(name + ".input_layernorm.weight", dim);
  layer.qkv = weights.linear({{name + ".self_attn.q_proj", q_dim, q},
                              {name + ".self_attn.k_proj", kv_dim, kv},
                              {name + ".self_attn.v_proj", kv_dim, kv}},
                             dim, whole.qkv_bias);
  layer.out =
      weights.linear({{name + ".self_attn.o_proj", dim}}, q_dim, whole.out_bias && first, q);
  layer.mlp_norm = weights.vector(name + ".post_attention_layernorm.weight", dim);
  layer.gate_up = weights.linear({{name + ".mlp.gate_proj", whole.ff_dim, shard_.ff},
                                  {name + ".mlp.up_proj", whole.ff_dim, shard_.ff}},
                                 dim, whole.mlp_bias);
  layer.down = weights.linear({{name + ".mlp.down_proj", dim}}, whole.ff_dim,
                              whole.mlp_bias && first, shard_.ff);
  return layer;
}

// A checkpoint may leave the output matrix out only when it says that the embedding matrix serves
// as one. Both are then one matrix in memory, too, if packing keeps the embeddings as they are.
void Llama::load_embeddings(WeightLoader& weights) {
  tied_ = config_.tie_word_embeddings && !weights.has("lm_head.weight");
  head_embeds_ = tied_ && weights.stores_exactly("embed_tokens.weight");
  if (head_embeds_) return;
  embed_tokens_ = weights.table("embed_tokens.weight", config_.vocab_rows, config_.dim);
}

void Llama::load_head(WeightLoader& weights) {
  norm_ = weights.vector("norm.weight", config_.dim);
  lm_head_ = weights.matrix(tied_ ? "embed_tokens.weight" : "lm_head.weight",
                            {config_.vocab_rows, config_.dim});
}

void Llama::make_rope_table(WeightLoader& weights) {
  const auto frequencies =
      rope_frequencies(config_.rope, config_.d_head, config_.max_positions, options_.max_model_len);
  const auto table = rope_table(config_.rope, frequencies, options_.max_model_len);
  rope_ = weights.upload(std::as_bytes(std::span(table)));
  rope_table_.cos = rope_.as<const float>();
  rope_table_.sin = rope_table_.cos + table.size() / 2;
  rope_table_.n_positions = options_.max_model_len;
  rope_table_.n_axes = config_.rope.n_axes();
  std::ranges::copy(config_.rope.sections, rope_table_.sections);
}

Status Llama::allocate() {
  const int64_t n = options_.max_step_tokens;
  const int64_t q_dim = int64_t{config_.n_heads} * config_.d_head;
  const int64_t wide = std::max({config_.qkv_dim(), config_.ff_dim, config_.dim});
  const int64_t gate_up = std::max<int64_t>(int64_t{2} * config_.ff_dim, q_dim);
  const auto take = [&](Scratch& scratch, int64_t elements, DType dtype) -> Status {
    auto made = Scratch::allocate(*device_, elements, dtype);
    if (!made) return std::unexpected(std::move(made.error()));
    scratch = std::move(*made);
    return {};
  };
  const DType dtype = device_->activation_dtype();
  const std::pair<Scratch*, int64_t> areas[] = {
      {&hidden_, n * config_.dim}, {&normed_, n * config_.dim}, {&attended_, n * q_dim},
      {&wide_, n * wide},          {&gate_up_, n * gate_up},
  };
  for (const auto& [scratch, elements] : areas) {
    if (auto status = take(*scratch, elements, dtype); !status) return status;
  }
  if (has_ends()) {
    const int64_t n_logits = std::min(kLogitRows, n) * config_.vocab_rows;
    if (auto status = take(logits_, n_logits, DType::kF32); !status) return status;
  }
  // One block more than the longest sequence needs, for callers that round up.
  max_blocks_ = (options_.max_model_len + options_.block_size - 1) / options_.block_size + 1;
  auto inputs =
      StepInputs::allocate(*device_, config_.rope.n_axes(), options_.max_step_tokens, max_blocks_);
  if (!inputs) return std::unexpected(std::move(inputs.error()));
  inputs_ = std::move(*inputs);
  return device_->ops().reserve({.n_seqs = n,
                                 .context_max = int64_t{max_blocks_} * options_.block_size,
                                 .n_heads = config_.n_heads,
                                 .d_head = config_.d_head,
                                 .n_logit_rows = has_ends() ? std::min(kLogitRows, n) : 0,
                                 .vocab = config_.vocab_rows});
}

Status Llama::allocate_kv(int64_t n_blocks) {
  auto kv = device_->allocate(static_cast<size_t>(config_.n_layers) *
                              static_cast<size_t>(n_blocks) * layout_.block_bytes());
  if (!kv) return std::unexpected(std::move(kv.error()));
  kv_ = std::move(*kv);
  n_kv_blocks_ = n_blocks;
  // What was recorded has the old cache's addresses. Ranks wait for each other inside a step.
  recorder_.reset();
  if (group_ == nullptr) recorder_ = device_->make_recorder();
  return recorder_ == nullptr ? Status{} : record_steps();
}

KvView Llama::kv() const {
  return {.data = const_cast<void*>(kv_.data()),
          .layout = layout_,
          .n_layers = config_.n_layers,
          .n_blocks = n_kv_blocks_};
}

Status Llama::step(const LanguageStep& step, std::span<SampledToken> out) {
  HS_CHECK_EQ(step.sampling.size(), step.sample_rows.size());
  const auto replayed = replay(step);
  if (!replayed) return std::unexpected(replayed.error());
  if (*replayed) {
    HS_CHECK_EQ(out.size(), step.sample_rows.size());
    device_->ops().sample(**replayed, options_.sampled_vocab, step.sampling, out);
    return device_->sync();
  }
  const auto hidden = forward(step);
  if (!hidden) return std::unexpected(hidden.error());
  if (!has_ends()) return device_->sync();
  HS_CHECK_EQ(out.size(), step.sample_rows.size());
  for (int64_t first = 0; first < hidden->rows; first += kLogitRows) {
    const int64_t n = std::min(kLogitRows, hidden->rows - first);
    const auto at = static_cast<size_t>(first);
    const auto count = static_cast<size_t>(n);
    device_->ops().sample(output(hidden->row_range(first, n)), options_.sampled_vocab,
                          std::span(step.sampling).subspan(at, count), out.subspan(at, count));
  }
  return device_->sync();
}

Status Llama::logits(const LanguageStep& step, std::vector<float>& logits) {
  const auto hidden = forward(step);
  if (!hidden) return std::unexpected(hidden.error());
  if (!has_ends()) return device_->sync();
  const auto vocab = static_cast<size_t>(config_.vocab_rows);
  logits.resize(static_cast<size_t>(hidden->rows) * vocab);
  for (int64_t first = 0; first < hidden->rows; first += kLogitRows) {
    const int64_t n = std::min(kLogitRows, hidden->rows - first);
    device_->download(output(hidden->row_range(first, n)).data,
                      logits.data() + static_cast<size_t>(first) * vocab,
                      static_cast<size_t>(n) * vocab * sizeof(float));
  }
  return device_->sync();
}

// What a recorded step depends on are its rows and the width of its tables: they fix the places of
// all inputs.
int64_t Llama::recorded_rows(int64_t n) const {
  const int64_t rows = recorder_->padded_rows(n);
  return rows > kLogitRows || rows > options_.max_step_tokens ? 0 : rows;
}

// Widths are powers of two, so that there are few.
int32_t Llama::recorded_stride(int32_t n) const {
  constexpr uint32_t kStrideMin = 16;
  const uint32_t wanted = std::bit_ceil(std::max(kStrideMin, static_cast<uint32_t>(n)));
  return std::min(static_cast<int32_t>(wanted), max_blocks_);
}

Status Llama::record_steps() {
  LanguageStep dead;
  dead.token_ids = {0};
  dead.positions.resize(static_cast<size_t>(config_.rope.n_axes()));
  dead.slots = {-1};
  dead.context_lens = {0};
  dead.block_tables = {0};
  dead.block_table_stride = 1;
  for (int64_t rows = recorded_rows(1); rows > 0; rows = recorded_rows(rows + 1)) {
    for (int32_t stride = recorded_stride(1);; stride = recorded_stride(stride + 1)) {
      pad_decode(dead, rows, stride, padded_);
      if (Status ran = replay_padded(); !ran) return ran;
      if (stride == max_blocks_) break;
    }
  }
  return device_->sync();
}

Status Llama::replay_padded() {
  inputs_.upload(*device_, padded_);
  const auto key = static_cast<uint64_t>(padded_.token_ids.size()) << 32U |
                   static_cast<uint64_t>(padded_.block_table_stride);
  return recorder_->run(key, [this]() -> Status {
    const auto hidden = run_layers(padded_);
    if (!hidden) return std::unexpected(hidden.error());
    output(*hidden);
    return {};
  });
}

Result<std::optional<Matrix>> Llama::replay(const LanguageStep& step) {
  if (recorder_ == nullptr || !is_plain_decode(step)) return std::nullopt;
  const auto n = static_cast<int64_t>(step.token_ids.size());
  const int64_t rows = recorded_rows(n);
  if (rows == 0) return std::nullopt;
  pad_decode(step, rows, recorded_stride(step.block_table_stride), padded_);
  if (Status ran = replay_padded(); !ran) return std::unexpected(std::move(ran.error()));
  return logits_.view(n, config_.vocab_rows);
}

Result<Matrix> Llama::forward(const LanguageStep& step) {
  HS_CHECK(kv_.data() != nullptr);
  HS_CHECK_GT(step.token_ids.size(), size_t{0});
  inputs_.upload(*device_, step);
  return run_layers(step);
}

// The step's inputs are on the device.
Result<Matrix> Llama::run_layers(const LanguageStep& step) {
  auto embedded = embed(step);
  if (!embedded) return embedded;
  Matrix hidden = *embedded;
  const size_t layer_bytes = static_cast<size_t>(n_kv_blocks_) * layout_.block_bytes();
  for (size_t i = 0; i < layers_.size(); ++i) {
    void* layer_kv = kv_.as<std::byte>() + i * layer_bytes;
    append_kv(layers_[i], hidden, layer_kv);
    const bool last = i + 1 == layers_.size();
    if (last && step.sample_rows.empty()) break;  // this step only fills the cache
    Matrix attended = attention(hidden, layer_kv);
    if (last) {  // from here on nobody reads the other rows
      const auto n_samples = static_cast<int64_t>(step.sample_rows.size());
      hidden = keep_sample_rows(hidden, n_samples, wide_);
      attended = keep_sample_rows(attended, n_samples, gate_up_);
    }
    if (Status done = finish_layer(layers_[i], hidden, attended); !done) {
      return std::unexpected(std::move(done.error()));
    }
  }
  return hidden.row_range(0, static_cast<int64_t>(step.sample_rows.size()));
}

// Token embeddings; image embeddings take the places of image placeholders. The first rank has both
// and tells the others.
Result<Matrix> Llama::embed(const LanguageStep& step) {
  const Matrix hidden = hidden_.view(static_cast<int64_t>(step.token_ids.size()), config_.dim);
  if (has_ends()) {
    if (head_embeds_)
      device_->ops().embed(lm_head_.packed, inputs_.token_ids(), hidden);
    else
      device_->ops().embed(embed_tokens_, inputs_.token_ids(), hidden);
    for (const auto& image : step.image_rows) {
      HS_CHECK_LE(image.first_row + image.n_rows, hidden.rows);
      const Matrix rows{const_cast<void*>(image.rows), hidden.dtype, image.n_rows, config_.dim,
                        config_.dim};
      device_->ops().copy(rows, hidden.row_range(image.first_row, image.n_rows));
    }
  }
  if (group_ != nullptr) {
    if (Status told = group_->broadcast(shard_.rank, hidden); !told) {
      return std::unexpected(std::move(told.error()));
    }
  }
  return hidden;
}

// q, k, v = RMSNorm(x) W^T, rotated; k and v go to the cache, q stays in `wide_`.
void Llama::append_kv(const Layer& layer, Matrix hidden, void* kv) {
  Ops& ops = device_->ops();
  const Matrix normed = normed_.view(hidden.rows, config_.dim);
  const Matrix qkv = wide_.view(hidden.rows, config_.qkv_dim());
  ops.rms_norm(hidden, layer.attention_norm, config_.norm_eps, normed);
  ops.linear(normed, layer.qkv.weight.packed, layer.qkv.bias, qkv);
  ops.rope_append(qkv, rope_table_, inputs_.batch(), kv, layout_);
}

// softmax(q k^T / sqrt(d)) v over each sequence's cache
Matrix Llama::attention(Matrix hidden, const void* kv) {
  const int64_t q_dim = int64_t{config_.n_heads} * config_.d_head;
  const Matrix q = wide_.view(hidden.rows, config_.qkv_dim()).col_range(0, q_dim);
  const Matrix attended = attended_.view(hidden.rows, q_dim);
  const float scale = 1.0F / std::sqrt(static_cast<float>(config_.d_head));
  device_->ops().paged_attention(q, kv, layout_, inputs_.batch(), scale, attended);
  return attended;
}

// x += attended W_o^T; x += down(silu(gate(RMSNorm(x))) * up(RMSNorm(x)))
Status Llama::finish_layer(const Layer& layer, Matrix hidden, Matrix attended) {
  Ops& ops = device_->ops();
  const Matrix normed = normed_.view(hidden.rows, config_.dim);
  const Matrix gate_up = gate_up_.view(hidden.rows, int64_t{2} * config_.ff_dim);
  const Matrix inner = wide_.view(hidden.rows, config_.ff_dim);
  if (Status added = add_linear(attended, layer.out, hidden); !added) return added;
  ops.rms_norm(hidden, layer.mlp_norm, config_.norm_eps, normed);
  ops.linear(normed, layer.gate_up.weight.packed, layer.gate_up.bias, gate_up);
  ops.silu_mul(gate_up, inner);
  return add_linear(inner, layer.down, hidden);
}

// x += y W^T + b, summed over all ranks
Status Llama::add_linear(Matrix y, const LinearWeights& weights, Matrix x) {
  if (group_ == nullptr) {
    device_->ops().linear(y, weights.weight.packed, weights.bias, x, Epilogue::kNone,
                          /*accumulate=*/true);
    return {};
  }
  const Matrix part = group_->part(shard_.rank, x.rows, x.cols);
  device_->ops().linear(y, weights.weight.packed, weights.bias, part);
  return group_->all_reduce(shard_.rank, x);
}

// logits = RMSNorm(x) W_head^T, (rows, vocab_rows) float32. REQUIRES: at most kLogitRows rows.
Matrix Llama::output(Matrix hidden) {
  const Matrix normed = normed_.view(hidden.rows, config_.dim);
  const Matrix logits = logits_.view(hidden.rows, config_.vocab_rows);
  device_->ops().rms_norm(hidden, norm_, config_.norm_eps, normed);
  device_->ops().linear(normed, lm_head_.packed, {}, logits);
  return logits;
}

// Moves the step's sample rows to the front of a matrix and returns that front.
Matrix Llama::keep_sample_rows(Matrix rows, int64_t n_samples, Scratch& scratch) {
  const Matrix kept = scratch.view(n_samples, rows.cols);
  const Matrix front = rows.row_range(0, n_samples);
  device_->ops().gather_rows(rows, inputs_.sample_rows(), kept);
  device_->ops().copy(kept, front);
  return front;
}

namespace {

LlamaOptions llama_options(const LoadOptions& options, const ModelSpec& spec) {
  return {.kv_dtype = spec.kv_layout.dtype,
          .block_size = spec.kv_layout.block_size,
          .max_step_tokens = options.max_step_tokens,
          .max_model_len = spec.max_model_len,
          .sampled_vocab = spec.vocab_size};
}

// On one device, or on several that share the layers; counts the weights in `spec`.
Result<std::unique_ptr<LanguageModel>> load_language(const Checkpoint& checkpoint,
                                                     const LoadOptions& options,
                                                     const LlamaConfig& config,
                                                     const std::vector<Device*>& devices,
                                                     ModelSpec& spec) {
  const auto n_ranks = static_cast<int32_t>(devices.size());
  std::unique_ptr<Communicator> group;
  if (n_ranks > 1) {
    auto made = Communicator::create(devices, int64_t{options.max_step_tokens} * config.dim);
    if (!made) return std::unexpected(std::move(made.error()));
    group = std::move(*made);
  }
  spec.language_bytes = spec.prefill_weight_bytes = spec.step_weight_bytes = 0;
  std::vector<std::unique_ptr<LanguageModel>> ranks;
  for (int32_t rank = 0; rank < n_ranks; ++rank) {
    Device& device = *devices[static_cast<size_t>(rank)];
    WeightLoader weights(checkpoint, device, options.dtype);
    auto one = Llama::load(weights, device, config, llama_options(options, spec),
                           shard_of(config, rank, n_ranks), group.get());
    if (!one) return std::unexpected(std::move(one.error()));
    spec.language_bytes += weights.weight_bytes();
    spec.prefill_weight_bytes += (*one)->layer_weight_bytes();
    spec.step_weight_bytes += (*one)->layer_weight_bytes() + (*one)->head_weight_bytes();
    ranks.push_back(std::move(*one));
  }
  if (n_ranks == 1) return std::move(ranks.front());
  return std::make_unique<ShardedLanguage>(std::move(group), std::move(ranks));
}

}  // namespace

Status load_languages(const Checkpoint& checkpoint, const LoadOptions& options,
                      const LlamaConfig& config, Model& model) {
  for (const DeviceGroup& group : options.language_devices) {
    auto language = load_language(checkpoint, options, config, group.ranks, model.spec);
    if (!language) return std::unexpected(std::move(language.error()));
    model.languages.push_back(std::move(*language));
  }
  return {};
}

}  // namespace hs
