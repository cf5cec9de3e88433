// Decode: the two products of a block of keys for few query rows, straight from the cache.
//
// With few rows the time goes into bringing keys and values in, so they are not first written down
// in another form (attention_keys.h). Each score and each element of acc is the same chain of
// multiply-adds as in small_gemm.h, and has the same bits.
#pragma once

#include "kernels/attention_keys.h"

namespace hs::HS_ISA_NS {

constexpr int64_t kFewRows = 4;
constexpr int64_t kCacheLine = 64;

// scores (R, kKeyBlock) = q (R, d) times the block's keys, for n_keys rounded up to whole groups.
template <int R, typename T>
static void score_rows(KeyRows<T>& block, const KeyRows<T>& next, const float* q, int64_t d,
                       float* scores) {
  constexpr int kGroups = R == 1 ? 4 : 2;  // vectors of keys at once: enough chains of additions
  constexpr int64_t kStep = kGroups * kLanes;
  constexpr int64_t kLine = kCacheLine / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kSteps = kLine / 4;  // over a cache line of each row
  repeat_first_key(block, kStep);
  for (int64_t j = 0; j < block.n_keys; j += kStep) {
    F32 acc[R][kGroups] = {};
    for (int64_t i = 0; i < d; i += 4) {
      // A share of the next block's rows at each step, so that requests do not come in bursts.
      const int64_t share = j + i / 4 % kSteps * (kStep / kSteps);
      for (int64_t n = share; n < share + kStep / kSteps && n < next.n_keys; ++n) {
        __builtin_prefetch(next.keys[n] + i / kLine * kLine);
      }
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        F32 column[4];
        transpose_four(block.keys + j + g * kLanes, i, column);
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) {
#pragma GCC unroll 4
          for (int r = 0; r < R; ++r)
            acc[r][g] = fma(splat(q[r * d + i + c]), column[c], acc[r][g]);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) store(scores + r * kKeyBlock + j + g * kLanes, acc[r][g]);
    }
  }
}

// V vectors of columns, from column `at`, of acc (R, d) += weights (R, kKeyBlock) times the block's
// values.
template <int R, int V, typename T>
HS_INLINE void mix_columns(const KeyRows<T>& block, const KeyRows<T>& next, const float* weights,
                           int64_t at, int64_t d, float* acc) {
  constexpr int64_t kBytes = V * kLanes * static_cast<int64_t>(sizeof(T));
  F32 sum[R][V];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[r][v] = load(acc + r * d + at + v * kLanes);
  }
  for (int64_t j = 0; j < block.n_keys; ++j) {
    if (j < next.n_keys) {
      for (int64_t b = 0; b < kBytes; b += kCacheLine) {
        __builtin_prefetch(reinterpret_cast<const char*>(next.values[j] + at) + b);
      }
    }
    const T* value = block.values[j] + at;
    F32 row[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) row[v] = widen(value + v * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const F32 weight = splat(weights[r * kKeyBlock + j]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = fma(weight, row[v], sum[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store(acc + r * d + at + v * kLanes, sum[r][v]);
  }
}

// acc (R, d) += weights times the block's values; d is a multiple of kLanes.
template <int R, typename T>
static void mix_rows(const KeyRows<T>& block, const KeyRows<T>& next, const float* weights,
                     int64_t d, float* acc) {
  constexpr int kWide = R == 1 ? 8 : R == 2 ? 4 : 2;
  int64_t at = 0;
  for (; at + kWide * kLanes <= d; at += kWide * kLanes) {
    mix_columns<R, kWide>(block, next, weights, at, d, acc);
  }
  // One vector alone would wait for its own sum at every key.
  constexpr int kLess = kWide > 4 ? 4 : 1;
  for (; kLess > 1 && at + kLess * kLanes <= d; at += kLess * kLanes) {
    mix_columns<R, kLess>(block, next, weights, at, d, acc);
  }
  for (; at < d; at += kLanes) mix_columns<R, 1>(block, next, weights, at, d, acc);
}

template <typename T>
static void score_few(KeyRows<T>& block, const KeyRows<T>& next, int64_t rows, const float* q,
                      int64_t d, float* scores) {
  switch (rows) {
    case 1:
      return score_rows<1>(block, next, q, d, scores);
    case 2:
      return score_rows<2>(block, next, q, d, scores);
    case 3:
      return score_rows<3>(block, next, q, d, scores);
    default:
      return score_rows<4>(block, next, q, d, scores);
  }
}

template <typename T>
static void mix_few(const KeyRows<T>& block, const KeyRows<T>& next, int64_t rows,
                    const float* weights, int64_t d, float* acc) {
  switch (rows) {
    case 1:
      return mix_rows<1>(block, next, weights, d, acc);
    case 2:
      return mix_rows<2>(block, next, weights, d, acc);
    case 3:
      return mix_rows<3>(block, next, weights, d, acc);
    default:
      return mix_rows<4>(block, next, weights, d, acc);
  }
}

}  // namespace hs::HS_ISA_NS
