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

// The largest of n >= 1 scores; those from n to the end of the last vector become -infinity.
HS_INLINE float mask_and_find_top(float* scores, int64_t n) {
  const F32 lowest = splat(-__builtin_inff());
  F32 top = lowest;
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) top = max(load(scores + j), top);
  if (j < n) {
    const F32 tail = lane_numbers() < static_cast<int32_t>(n - j) ? load(scores + j) : lowest;
    store(scores + j, tail);
    top = max(tail, top);
  }
  return max_lane(top);
}

// Rows first .. rows-1 may now reach top[r]: raises `largest` to it, scales the sum, and leaves the
// factor for acc in top[r].
static void raise_largest(const SoftmaxState& s, int64_t first, int64_t rows, float* top) {
  for (int64_t r = first; r < rows; r += kLanes) {
    const int64_t n = rows - r < kLanes ? rows - r : kLanes;
    const F32 before = load_n(s.largest + r, n);
    const F32 largest = max(load_n(top + r, n), before);
    const F32 shrink = exp(before - largest);
    store_n(s.largest + r, largest, n);
    store_n(s.sum + r, load_n(s.sum + r, n) * shrink, n);
    store_n(top + r, shrink, n);
  }
}

// Turns n scores of row r into weights, adds their sum, and makes the weights from n to n_all zero.
HS_INLINE void add_weights(const SoftmaxState& s, int64_t r, float* scores, int64_t n,
                           int64_t n_all) {
  const F32 largest = splat(s.largest[r]);
  F32 total{};
  int64_t j = 0;
  for (; j < n; j += kLanes) {
    const F32 weight = exp(load(scores + j) - largest);
    store(scores + j, weight);
    total += weight;
  }
  for (; j < n_all; j += kLanes) store(scores + j, F32{});
  s.sum[r] += sum(total);
}

HS_INLINE void scale_acc(const SoftmaxState& s, int64_t r, float factor) {
  if (factor == 1.0F) return;
  float* acc = s.acc + r * s.width;
  for (int64_t i = 0; i < s.width; i += kLanes) store(acc + i, load(acc + i) * factor);
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
