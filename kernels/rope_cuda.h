// Rotary positions and KV append on a GPU, as kernels/rope.h defines them. The rotation is in
// float32 and rounded to dtype once; within 1e-6 of float64, plus that rounding, for inputs within
// +-2.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"
#include "kernels/kv_cache.h"

namespace hs::cuda {

// All pointers are device memory. d_head is even, at most 256.
struct RopeAppendParams {
  DType dtype = DType::kBF16;  // of qkv: kF32, kF16 or kBF16; layout.dtype is the same
  // (n_tokens, (n_heads + 2 n_kv_heads) * d_head), rows qkv_stride apart: q, k, v; q is rotated in
  // place
  void* qkv = nullptr;
  const float* cos = nullptr;          // (n_positions, d_head / 2)
  const float* sin = nullptr;          // (n_positions, d_head / 2)
  const int32_t* positions = nullptr;  // (n_axes, n_tokens), each < n_positions
  const int64_t* slots = nullptr;  // (n_tokens): block * block_size + slot in block; -1: not stored
  void* kv = nullptr;              // this layer's cache
  KvLayout layout;
  int64_t n_tokens = 0;
  int64_t qkv_stride = 0;  // in elements
  int32_t n_heads = 0;
  int32_t n_axes = 1;               // 1, or 3 for M-RoPE
  int32_t sections[3] = {0, 0, 0};  // frequencies of each axis; used when n_axes is not 1
};
cudaError_t rope_append(const RopeAppendParams& params, cudaStream_t stream);

struct RopeRotateParams {
  DType dtype = DType::kBF16;          // of x
  void* x = nullptr;                   // (n_rows, n_heads * d_head), rows x_stride apart
  const float* cos = nullptr;          // (n_positions, d_head / 2)
  const float* sin = nullptr;          // (n_positions, d_head / 2)
  const int32_t* positions = nullptr;  // (n_axes, n_rows), each < n_positions
  int64_t n_rows = 0;
  int64_t x_stride = 0;  // in elements
  int32_t n_heads = 0;
  int32_t d_head = 0;
  int32_t n_axes = 1;               // 1 .. 3
  int32_t sections[3] = {0, 0, 0};  // frequencies of each axis; used when n_axes is not 1
};
cudaError_t rope_rotate(const RopeRotateParams& params, cudaStream_t stream);

}  // namespace hs::cuda
