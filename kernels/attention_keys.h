// One block of keys and values brought into the form the products need: keys transposed, both
// float32.
//
// Done once for a block and then used by all query rows of a tile.
#pragma once

#include "kernels/transpose.h"

namespace hs::HS_ISA_NS {

constexpr int64_t kKeyBlock = 64;   // keys in a block; blocks begin at multiples of it
constexpr int64_t kDHeadMax = 256;  // d_head is a multiple of 4

constexpr int64_t round_up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

// Where the vectors of one block stand; entries from n_keys on are not read. T: float or uint16_t
// (bfloat16).
template <typename T>
struct KeyRows {
  int64_t n_keys = 0;  // 1 .. kKeyBlock
  const T* keys[kKeyBlock];
  const T* values[kKeyBlock];
};

// Fills the keys up to a multiple of `step` with the first one; the softmax masks them.
template <typename T>
HS_INLINE void repeat_first_key(KeyRows<T>& block, int64_t step) {
  const int64_t padded = round_up(block.n_keys, step);
  for (int64_t j = block.n_keys; j < padded; ++j) block.keys[j] = block.keys[0];
}

// Asks for rows first .. last-1, as far as there are that many, ahead of their use: pages are
// short, so the processor does not foresee the next one.
template <typename T>
HS_INLINE void prefetch_rows(const T* const* rows, int64_t first, int64_t last, int64_t n,
                             int64_t d) {
  for (int64_t j = first; j < last && j < n; ++j) {
    for (int64_t i = 0; i < d; i += 64 / static_cast<int64_t>(sizeof(T)))
      __builtin_prefetch(rows[j] + i);
  }
}

// Keys (n_keys, d) -> to (d, kKeyBlock), as many columns as fill whole vectors.
template <typename T>
static void load_keys(KeyRows<T>& block, const KeyRows<T>& next, int64_t d, float* to) {
  repeat_first_key(block, kLanes);
  for (int64_t j = 0; j < block.n_keys; j += kLanes) {
    prefetch_rows(next.keys, j, j + kLanes, next.n_keys, d);
    for (int64_t i = 0; i < d; i += 4) {
      F32 column[4];
      transpose_four(block.keys + j, i, column);
      for (int c = 0; c < 4; ++c) store(to + (i + c) * kKeyBlock + j, column[c]);
    }
  }
}

HS_INLINE F32 widen(const float* p) {
  return load(p);
}
HS_INLINE F32 widen(const uint16_t* p) {
  return load_bf16(p);
}
HS_INLINE F32 widen_n(const float* p, int64_t n) {
  return load_n(p, n);
}
HS_INLINE F32 widen_n(const uint16_t* p, int64_t n) {
  return load_bf16_n(p, n);
}

// Values (n_keys, d) -> to (n_keys, d padded to whole vectors with zeros).
template <typename T>
static void load_values(const KeyRows<T>& block, const KeyRows<T>& next, int64_t d, float* to) {
  const int64_t d_padded = round_up(d, kLanes);
  for (int64_t j = 0; j < block.n_keys; ++j, to += d_padded) {
    prefetch_rows(next.values, j, j + 1, next.n_keys, d);
    int64_t i = 0;
    for (; i + kLanes <= d; i += kLanes) store(to + i, widen(block.values[j] + i));
    if (i < d) store(to + i, widen_n(block.values[j] + i, d - i));
  }
}

}  // namespace hs::HS_ISA_NS
