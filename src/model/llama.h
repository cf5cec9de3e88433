// The Llama language model (Touvron et al., 2023): RMSNorm, rotary positions, grouped-query
// attention over a paged KV cache, SwiGLU. Qwen2 (Yang et al., 2024) is the same with biases on q,
// k and v, and its vision-language kin give each token three positions (M-RoPE). Runs steps of
// packed sequences; see LanguageStep. With tensor parallelism it is one rank of several
// (llama_shard.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/communicator.h"
#include "device/device.h"
#include "model/device_memory.h"
#include "model/llama_config.h"
#include "model/llama_shard.h"
#include "model/model.h"
#include "model/step_inputs.h"
#include "model/weights.h"

namespace hs {

struct LlamaOptions {
  DType kv_dtype = DType::kBF16;
  int32_t block_size = 16;
  int32_t max_step_tokens = 512;
  int32_t max_model_len = 0;  // positions of the rotary table
  int32_t sampled_vocab = 0;  // ids below this may be sampled
};

class Llama final : public LanguageModel {
 public:
  // Weight names: embed_tokens, layers.N..., norm, lm_head. Errors: what the weights lack. With
  // several ranks `group` joins them, has areas of max_step_tokens * dim, and outlives the result.
  static Result<std::unique_ptr<Llama>> load(WeightLoader& weights, Device& device,
                                             const LlamaConfig& config, const LlamaOptions& options,
                                             const LlamaShard& shard, Communicator* group);

  Status allocate_kv(int64_t n_blocks) override;
  KvView kv() const override;
  Status step(const LanguageStep& step, std::span<SampledToken> out) override;
  Status logits(const LanguageStep& step, std::vector<float>& logits) override;
  const KvLayout& kv_layout() const { return layout_; }
  // Bytes of the layers' weights, and of the output matrix: what a decode step reads.
  size_t layer_weight_bytes() const { return layer_weight_bytes_; }
  size_t head_weight_bytes() const { return lm_head_.buffer.bytes(); }

 private:
  struct Layer {
    OwnedVector attention_norm;
    LinearWeights qkv;
    LinearWeights out;
    OwnedVector mlp_norm;
    LinearWeights gate_up;
    LinearWeights down;
  };

  Llama(Device& device, const LlamaConfig& config, const LlamaOptions& options,
        const LlamaShard& shard, Communicator* group);
  bool has_ends() const { return shard_.rank == 0; }  // the embedding table and the output matrix
  void load_weights(WeightLoader& weights, const LlamaConfig& whole);
  Layer load_layer(WeightLoader& weights, const LlamaConfig& whole, int32_t index) const;
  void load_embeddings(WeightLoader& weights);
  void load_head(WeightLoader& weights);
  void make_rope_table(WeightLoader& weights);
  Status allocate();
  // Hidden states of the sample rows after the last layer, (n_samples, dim).
  Result<Matrix> forward(const LanguageStep& step);
  Result<Matrix> run_layers(const LanguageStep& step);
  // Runs every shape that replay() can meet once, with dead rows alone.
  Status record_steps();
  // Logits of a decode step by the device's recorder; none where it is not to be recorded.
  Result<std::optional<Matrix>> replay(const LanguageStep& step);
  Status replay_padded();
  // What a step of n rows is padded to, and a block table n wide; 0 rows: not recorded.
  int64_t recorded_rows(int64_t n) const;
  int32_t recorded_stride(int32_t n) const;
  Result<Matrix> embed(const LanguageStep& step);
  void append_kv(const Layer& layer, Matrix hidden, void* kv);
  Matrix attention(Matrix hidden, const void* kv);
  Status finish_layer(const Layer& layer, Matrix hidden, Matrix attended);
  Status add_linear(Matrix y, const LinearWeights& weights, Matrix x);
  Matrix output(Matrix hidden);
  Matrix keep_sample_rows(Matrix rows, int64_t n_samples, Scratch& scratch);

  Device* device_;
  LlamaConfig config_;  // of this rank
  LlamaOptions options_;
  LlamaShard shard_;
  Communicator* group_;  // null: the only rank
  KvLayout layout_;
  Buffer kv_;  // (n_layers, n_blocks) blocks
  int64_t n_kv_blocks_ = 0;

  bool tied_ = false;         // lm_head_ has the embedding table's values
  bool head_embeds_ = false;  // lm_head_ is the embedding table, too, and embed_tokens_ is empty
  OwnedTable embed_tokens_;
  std::vector<Layer> layers_;
  size_t layer_weight_bytes_ = 0;
  OwnedVector norm_;
  OwnedWeight lm_head_;
  Buffer rope_;  // cos and sin tables
  RopeTable rope_table_;

  StepInputs inputs_;
  Scratch hidden_;    // (max_step_tokens, dim)
  Scratch normed_;    // (max_step_tokens, dim)
  Scratch attended_;  // (max_step_tokens, n_heads * d_head)
  Scratch wide_;      // (max_step_tokens, qkv or ff_dim)
  Scratch gate_up_;   // (max_step_tokens, 2 * ff_dim)
  Scratch logits_;    // (kLogitRows, vocab_rows)

  int32_t max_blocks_ = 0;                  // of a block table
  std::unique_ptr<StepRecorder> recorder_;  // null: steps are not recorded
  LanguageStep padded_;                     // work area of replay()
};

// A Llama on each of the groups of language devices, and what the spec says of its weights.
Status load_languages(const Checkpoint& checkpoint, const LoadOptions& options,
                      const LlamaConfig& config, Model& model);

}  // namespace hs
