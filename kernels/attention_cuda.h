// Scaled dot-product attention on a GPU: softmax(q k^T * scale) v, as kernels/attention.h defines
// it. Scores, softmax and sums in float32.
//
// A row's sums have one order, fixed by its own position in its sequence: its result has the same
// bits whatever else is in the batch, and however its prompt was cut into chunks. The two ways of
// attending over the cache, paged_attention() and decode_attention(), do not give the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"
#include "kernels/kv_cache.h"

namespace hs::cuda {

// All pointers are device memory; strides are in elements.

// One query row a sequence, over the paged cache. A context is cut into chunks that blocks work on
// side by side; their results are then merged. d_head is a multiple of 16 bytes, at most 128.
// Against float64, for values within +-2: within 4e-6 plus one rounding to dtype.
struct DecodeAttentionParams {
  DType dtype = DType::kBF16;  // of q, out and the cache: kF32, kF16 or kBF16
  const void* q = nullptr;     // (n_seqs, n_heads * d_head), rows q_stride apart
  const void* kv = nullptr;  // this layer's cache, 16-byte aligned, already holding the new tokens
  KvLayout layout;
  const int32_t* block_tables = nullptr;  // (n_seqs, block_table_stride)
  const int32_t* context_lens = nullptr;  // (n_seqs), <= n_chunks_max * chunk_tokens; 0 gives 0
  void* out = nullptr;                    // (n_seqs, n_heads * d_head), rows out_stride apart
  int64_t n_seqs = 0;                     // at most 65535
  int64_t q_stride = 0;
  int64_t out_stride = 0;
  int32_t block_table_stride = 0;
  int32_t n_heads = 0;  // a multiple of layout.n_kv_heads
  float scale = 0;
  // Equal chunk_tokens give equal bits. With n_chunks_max fixed the launch has one shape for all
  // contexts, as a graph needs.
  int32_t chunk_tokens = 256;
  int32_t n_chunks_max = 1;
  float* workspace = nullptr;  // decode_attention_workspace_bytes(); unused when n_chunks_max is 1
};
size_t decode_attention_workspace_bytes(const DecodeAttentionParams& params);
cudaError_t decode_attention(const DecodeAttentionParams& params, cudaStream_t stream);

// Causal attention of packed query chunks over the paged cache, on tensor cores. d_head is a
// multiple of 8, at most 128 (computed as 32, 64, 80, 96 or 128). The weights of the values are
// rounded to dtype: against float64, for values within +-2, within 5e-3 (kBF16) or 7e-4 (kF16) plus
// one rounding.
struct PagedAttentionParams {
  DType dtype = DType::kBF16;  // of q, out and the cache: kF16 or kBF16
  const void* q = nullptr;     // (n_tokens, n_heads * d_head), rows q_stride apart, 16-byte aligned
  const void* kv = nullptr;    // as above
  KvLayout layout;
  const int32_t* block_tables = nullptr;  // (n_seqs, block_table_stride)
  // (n_seqs + 1): first query row of each sequence; the first of them need not be 0
  const int32_t* cu_query = nullptr;
  const int32_t* context_lens = nullptr;  // (n_seqs): tokens in the cache, the new ones included
  void* out = nullptr;                    // (n_tokens, n_heads * d_head), rows out_stride apart
  int64_t n_tokens = 0;                   // cu_query[n_seqs]
  int64_t n_seqs = 0;
  int64_t q_stride = 0;
  int64_t out_stride = 0;
  int32_t block_table_stride = 0;
  int32_t n_heads = 0;
  float scale = 0;
};
cudaError_t paged_attention(const PagedAttentionParams& params, cudaStream_t stream);

// Bidirectional attention inside packed segments (vision towers; a window is a segment), by the
// same kernel.
struct PackedAttentionParams {
  DType dtype = DType::kBF16;
  const void* q = nullptr;  // (n_tokens, n_heads * d_head), rows qkv_stride apart; k and v alike
  const void* k = nullptr;
  const void* v = nullptr;
  const int32_t* cu_seqlens = nullptr;  // (n_segments + 1)
  void* out = nullptr;                  // (n_tokens, n_heads * d_head), rows out_stride apart
  int64_t n_tokens = 0;                 // cu_seqlens[n_segments]
  int64_t n_segments = 0;
  int64_t qkv_stride = 0;
  int64_t out_stride = 0;
  int32_t n_heads = 0;
  int32_t d_head = 0;
  float scale = 0;
};
cudaError_t packed_attention(const PackedAttentionParams& params, cudaStream_t stream);

}  // namespace hs::cuda
