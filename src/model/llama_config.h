// What config.json says about a language model of Llama's shape: Llama itself, Qwen2, and the text
// half of Qwen2.5-VL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/json_fields.h"
#include "model/rope.h"

namespace hs {

struct LlamaConfig {
  int32_t vocab_rows = 0;  // rows of the embedding and output matrices
  int32_t dim = 0;
  int32_t ff_dim = 0;
  int32_t n_layers = 0;
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;  // divides n_heads
  int32_t d_head = 0;      // even
  int32_t max_positions = 0;
  float norm_eps = 0;
  bool qkv_bias = false;
  bool out_bias = false;  // of the attention's output matrix
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  RopeConfig rope;

  int32_t qkv_dim() const { return (n_heads + 2 * n_kv_heads) * d_head; }
};

// Reads the fields of a text config (flat or text_config); complaints go to the reader.
LlamaConfig read_llama_config(FieldReader& text);

// The same for Qwen2: q, k and v always have biases and no other matrix has one; what Llama's
// configs may leave out must be there. A sliding window is refused.
LlamaConfig read_qwen2_config(FieldReader& text);

// Qwen2.5-VL's text half: Qwen2 with M-RoPE.
LlamaConfig read_qwen2_mrope_config(FieldReader& text);

}  // namespace hs
