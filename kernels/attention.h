// Scaled dot-product attention: softmax(q k^T * scale) v, softmax and sums in float32 (online over
// blocks of keys).
//
// d_head is a multiple of 4, at most 256. Keys are visited in blocks that start at fixed positions
// of the sequence, and a row's sums have one fixed order, so a token's result has the same bits
// however its prompt was cut into chunks, whatever else is in the batch, and for any team. Against
// float64: within 3e-6 for values within +-2.
#pragma once

#include <cstdint>

#include "kernels/kv_cache.h"
#include "kernels/team.h"

namespace hs {

// Causal attention of packed query chunks over the paged cache; covers prefill chunks and decode (1
// query token).
struct PagedAttentionParams {
  const float* q = nullptr;  // (n_tokens, n_heads, d_head), rows q_stride apart
  const void* kv = nullptr;  // this layer's cache, already holding the new tokens
  KvLayout layout;
  const int32_t* block_tables = nullptr;  // (n_seqs, block_table_stride)
  const int32_t* cu_query = nullptr;      // (n_seqs + 1): first query row of each sequence
  const int32_t* context_lens = nullptr;  // (n_seqs): tokens in the cache, the new ones included
  float* out = nullptr;                   // (n_tokens, n_heads * d_head)
  int64_t n_seqs = 0;
  int64_t q_stride = 0;  // in floats
  int32_t block_table_stride = 0;
  int32_t n_heads = 0;  // a multiple of layout.n_kv_heads
  float scale = 0;
};

void paged_attention_cpu(const PagedAttentionParams& params, Team& team);

// Bidirectional attention inside packed segments (vision towers); no cache.
struct PackedAttentionParams {
  const float* q = nullptr;  // (n_tokens, n_heads, d_head), rows qkv_stride apart; k and v alike
  const float* k = nullptr;
  const float* v = nullptr;
  const int32_t* cu_seqlens = nullptr;  // (n_segments + 1)
  float* out = nullptr;                 // (n_tokens, n_heads * d_head)
  int64_t n_segments = 0;
  int64_t qkv_stride = 0;  // in floats
  int32_t n_heads = 0;
  int32_t d_head = 0;
  float scale = 0;
};

void packed_attention_cpu(const PackedAttentionParams& params, Team& team);

}  // namespace hs
