// Rotary positions on q and k, and append of k and v to the paged cache, in one pass over the qkv
// rows; and the rotation alone, for vision towers.
//
// Rotate-half convention (Llama, Qwen): for i < d/2,
//   out[i]       = x[i] * cos[p][i] - x[i + d/2] * sin[p][i]
//   out[i + d/2] = x[i + d/2] * cos[p][i] + x[i] * sin[p][i]
// With several axes the d/2 frequencies are split into sections, each with its own position axis
// (M-RoPE: time, height, width; vision towers: height, width).
//
// d_head is even, at most 256. A bfloat16 cache rounds to nearest even. Within 1e-6 of float64 for
// inputs within +-2.
#pragma once

#include <cstdint>

#include "kernels/kv_cache.h"
#include "kernels/team.h"

namespace hs {

struct RopeAppendParams {
  // (n_tokens, (n_heads + 2 n_kv_heads) * d_head): q, k, v; q is rotated in place
  float* qkv = nullptr;
  const float* cos = nullptr;          // (n_positions, d_head / 2)
  const float* sin = nullptr;          // (n_positions, d_head / 2)
  const int32_t* positions = nullptr;  // (n_axes, n_tokens), each < n_positions
  // (n_tokens): block * block_size + slot in block, where k and v go
  const int64_t* slots = nullptr;
  void* kv = nullptr;  // this layer's cache
  KvLayout layout;
  int64_t n_tokens = 0;
  int32_t n_heads = 0;
  int32_t n_axes = 1;  // 1, or 3 for M-RoPE (time, height, width)
  // Frequencies of each axis, in order; their sum is d_head / 2 when n_axes is 3.
  int32_t sections[3] = {0, 0, 0};
};

void rope_append_cpu(const RopeAppendParams& params, Team& team);

// Rotates n_heads heads of each row in place (q and k of a vision tower, which lie side by side).
// A row's result does not depend on the rows beside it.
struct RopeRotateParams {
  float* x = nullptr;                  // (n_rows, n_heads * d_head), rows x_stride apart
  const float* cos = nullptr;          // (n_positions, d_head / 2)
  const float* sin = nullptr;          // (n_positions, d_head / 2)
  const int32_t* positions = nullptr;  // (n_axes, n_rows), each < n_positions
  int64_t n_rows = 0;
  int64_t x_stride = 0;  // in floats
  int32_t n_heads = 0;
  int32_t d_head = 0;
  int32_t n_axes = 1;  // 1 .. 3
  // Frequencies of each axis, in order; their sum is d_head / 2 when n_axes is not 1.
  int32_t sections[3] = {0, 0, 0};
};

void rope_rotate_cpu(const RopeRotateParams& params, Team& team);

}  // namespace hs
