#include "model/llama_config.h"

#include <fmt/format.h>

namespace hs {

namespace {

constexpr int32_t kDimMax = 1 << 18;
constexpr int32_t kLayersMax = 1 << 12;
constexpr int32_t kHeadsMax = 1 << 12;
constexpr int32_t kVocabMax = 1 << 24;
constexpr int32_t kPositionsMax = 1 << 26;

void check_heads(FieldReader& text, const LlamaConfig& config, bool explicit_d_head) {
  if (!explicit_d_head && config.dim % config.n_heads != 0) {
    text.complain("num_attention_heads", fmt::format("is {}, which does not divide hidden_size {}",
                                                     config.n_heads, config.dim));
  }
  if (config.n_heads % config.n_kv_heads != 0) {
    text.complain("num_key_value_heads",
                  fmt::format("is {}, which does not divide num_attention_heads {}",
                              config.n_kv_heads, config.n_heads));
  }
  if (config.d_head % 2 != 0) {
    text.complain("head_dim",
                  fmt::format("is {}; rotary positions need an even one", config.d_head));
  }
  // Bounds every product of sizes that buffers are made of.
  if (int64_t{config.n_heads} * config.d_head > kDimMax) {
    text.complain("head_dim", fmt::format("{} with {} heads is more than {} together",
                                          config.d_head, config.n_heads, kDimMax));
  }
}

void check_activation(FieldReader& text) {
  if (const auto act = text.text("hidden_act", "silu"); act != "silu" && act != "swish") {
    text.complain("hidden_act", fmt::format("\"{}\" is not supported (silu is)", act),
                  ErrorKind::kUnsupported);
  }
}

// Everything but positions.
LlamaConfig read_qwen2_sizes(FieldReader& text) {
  LlamaConfig config;
  config.vocab_rows = text.integer("vocab_size", 1, kVocabMax);
  config.dim = text.integer("hidden_size", 1, kDimMax);
  config.ff_dim = text.integer("intermediate_size", 1, kDimMax);
  config.n_layers = text.integer("num_hidden_layers", 1, kLayersMax);
  config.n_heads = text.integer("num_attention_heads", 1, kHeadsMax);
  config.n_kv_heads = text.integer("num_key_value_heads", 1, kHeadsMax, config.n_heads);
  const bool explicit_d_head = text.has("head_dim");
  config.d_head =
      text.integer("head_dim", 1, kDimMax, text.failed() ? 2 : config.dim / config.n_heads);
  config.max_positions = text.integer("max_position_embeddings", 1, kPositionsMax, 32768);
  config.norm_eps = static_cast<float>(text.number("rms_norm_eps", 0, 1, 1e-6));
  config.qkv_bias = true;
  config.tie_word_embeddings = text.flag("tie_word_embeddings", false);
  check_activation(text);
  if (text.flag("use_sliding_window", false)) {
    text.complain("use_sliding_window", "true is not supported: attention sees the whole sequence",
                  ErrorKind::kUnsupported);
  }
  if (!text.failed()) check_heads(text, config, explicit_d_head);
  return config;
}

}  // namespace

LlamaConfig read_llama_config(FieldReader& text) {
  LlamaConfig config;
  config.vocab_rows = text.integer("vocab_size", 1, kVocabMax, 32000);
  config.dim = text.integer("hidden_size", 1, kDimMax, 4096);
  config.ff_dim = text.integer("intermediate_size", 1, kDimMax, 11008);
  config.n_layers = text.integer("num_hidden_layers", 1, kLayersMax, 32);
  config.n_heads = text.integer("num_attention_heads", 1, kHeadsMax, 32);
  config.n_kv_heads = text.integer("num_key_value_heads", 1, kHeadsMax, config.n_heads);
  const bool explicit_d_head = text.has("head_dim");
  config.d_head = text.integer("head_dim", 1, kDimMax, config.dim / config.n_heads);
  config.max_positions = text.integer("max_position_embeddings", 1, kPositionsMax, 2048);
  config.norm_eps = static_cast<float>(text.number("rms_norm_eps", 0, 1, 1e-6));
  config.qkv_bias = config.out_bias = text.flag("attention_bias", false);
  config.mlp_bias = text.flag("mlp_bias", false);
  config.tie_word_embeddings = text.flag("tie_word_embeddings", false);
  check_activation(text);
  if (!text.failed()) check_heads(text, config, explicit_d_head);
  config.rope = read_rope_config(text, config.max_positions);
  return config;
}

LlamaConfig read_qwen2_config(FieldReader& text) {
  LlamaConfig config = read_qwen2_sizes(text);
  config.rope = read_rope_config(text, config.max_positions);
  return config;
}

LlamaConfig read_qwen2_mrope_config(FieldReader& text) {
  LlamaConfig config = read_qwen2_sizes(text);
  if (text.failed()) return config;
  config.rope = read_mrope_config(text, config.max_positions, config.d_head, 1e6);
  return config;
}

}  // namespace hs
