// The running state of an online softmax (Milakov and Gimelshein 2018): for one query row the
// largest score so far, the sum of exp(score - largest), and the sum of values weighted by it.
#pragma once

#include "kernels/simd_math.h"

namespace hs::HS_ISA_NS {

// The states of some query rows.
struct SoftmaxState {
  float* largest = nullptr;  // (rows)
  float* sum = nullptr;      // (rows)
  float* acc = nullptr;      // (rows, width)
  int64_t width = 0;         // a multiple of kLanes
};

HS_INLINE void clear(const SoftmaxState& s, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) s.largest[r] = -__builtin_inff();
  for (int64_t r = 0; r < rows; ++r) s.sum[r] = 0;
  std::memset(s.acc, 0, static_cast<size_t>(rows * s.width) * sizeof(float));
}

HS_INLINE float exp_one(float x) {
  return exp(splat(x))[0];
}

// Takes n >= 1 scores into row r: turns them into weights in place, makes the weights from n to
// n_all zero, and scales what was there before; the caller then adds weights x values to acc.
// scores has room for whole vectors.
static void add_scores(const SoftmaxState& s, int64_t r, float* scores, int64_t n, int64_t n_all) {
  F32 top = splat(-__builtin_inff());
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) top = max(load(scores + j), top);
  if (j < n) {
    const F32 tail =
        lane_numbers() < static_cast<int32_t>(n - j) ? load(scores + j) : splat(-__builtin_inff());
    store(scores + j, tail);
    top = max(tail, top);
  }
  const float before = s.largest[r];
  const float block_top = max_lane(top);
  const float largest = block_top > before ? block_top : before;
  F32 total{};
  for (j = 0; j < n; j += kLanes) {
    const F32 weight = exp(load(scores + j) - largest);
    store(scores + j, weight);
    total += weight;
  }
  for (; j < n_all; j += kLanes) store(scores + j, F32{});
  if (largest != before) {
    const float shrink = exp_one(before - largest);
    s.largest[r] = largest;
    s.sum[r] *= shrink;
    for (int64_t i = 0; i < s.width; i += kLanes) {
      store(s.acc + r * s.width + i, load(s.acc + r * s.width + i) * shrink);
    }
  }
  s.sum[r] += sum(total);
}

// into += from, for one row each. Not inlined, so that every caller gets the same roundings.
[[gnu::noinline]] static void merge_row(const SoftmaxState& into, int64_t r,
                                        const SoftmaxState& from, int64_t from_row) {
  const float a = into.largest[r], b = from.largest[from_row];
  const float largest = b > a ? b : a;
  const float keep = exp_one(a - largest), add = exp_one(b - largest);
  into.largest[r] = largest;
  into.sum[r] = into.sum[r] * keep + from.sum[from_row] * add;
  float* to = into.acc + r * into.width;
  const float* more = from.acc + from_row * from.width;
  for (int64_t i = 0; i < into.width; i += kLanes) {
    store(to + i, load(to + i) * keep + load(more + i) * add);
  }
}

// out (d) = the weighted mean of the values.
static void finish_row(const SoftmaxState& s, int64_t r, float* out, int64_t d) {
  const float inverse = 1.0F / s.sum[r];
  const float* acc = s.acc + r * s.width;
  int64_t i = 0;
  for (; i + kLanes <= d; i += kLanes) store(out + i, load(acc + i) * inverse);
  if (i < d) store_n(out + i, load(acc + i) * inverse, d - i);
}

}  // namespace hs::HS_ISA_NS
