// A row of logits as fixed-point probabilities, bit for bit those of kernels/sampling_weights.h: a
// token's weight is round(2^30 exp((logit - largest) / temperature)). Sums of weights are exact, so
// threads may add them in any order.
#pragma once

#include "kernels/portable.cuh"

namespace hs::cuda {

constexpr float kTopWeight = 0x1p30F;

struct WeightedRow {
  const float* x = nullptr;  // (n) logits
  int64_t n = 0;
  float largest = 0;
  float inverse_temperature = 1;
};

// e^x as exp() of kernels/simd_math.h computes it without contraction.
HS_DEVICE float exp_exact(float x) {
  constexpr float kLowest = -87.33F, kHighest = 88.37F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  if (x < kLowest) return 0;
  const float clamped = x > kHighest ? kHighest : x;
  const float n = add_exact(add_exact(mul_exact(clamped, 1.44269504088896341F), kRound), -kRound);
  float r = add_exact(clamped, -mul_exact(n, 0.693359375F));
  r = add_exact(r, mul_exact(n, 2.12194440e-4F));
  float p = 1.9875691500e-4F;
  p = add_exact(mul_exact(p, r), 1.3981999507e-3F);
  p = add_exact(mul_exact(p, r), 8.3334519073e-3F);
  p = add_exact(mul_exact(p, r), 4.1665795894e-2F);
  p = add_exact(mul_exact(p, r), 1.6666665459e-1F);
  p = add_exact(mul_exact(p, r), 5.0000001201e-1F);
  p = add_exact(mul_exact(p, mul_exact(r, r)), r);
  p = add_exact(p, 1.0F);
  return mul_exact(p, float_of_bits(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23));
}

// (logit - largest) / temperature, at most 0.
HS_DEVICE float scaled(const WeightedRow& row, float x) {
  return mul_exact(add_exact(x, -row.largest), row.inverse_temperature);
}

HS_DEVICE uint32_t weight_of(const WeightedRow& row, float x) {
  const float weight = add_exact(mul_exact(exp_exact(scaled(row, x)), kTopWeight), 0.5F);
  return static_cast<uint32_t>(static_cast<int32_t>(weight));
}

// Tokens in the order of their logits, lowest id first among equals: the earlier has the larger
// number, and no two have the same.
HS_DEVICE uint64_t order_of(float x, int64_t id) {
  const uint32_t bits = float_bits(add_exact(x, 0.0F));  // -0 counts as 0
  const uint32_t rising = bits & 0x80000000U ? ~bits : bits | 0x80000000U;
  return uint64_t{rising} << 32 | (0xFFFFFFFFU - static_cast<uint32_t>(id));
}
HS_DEVICE int32_t id_of(uint64_t order) {
  return static_cast<int32_t>(0xFFFFFFFFU - static_cast<uint32_t>(order));
}

}  // namespace hs::cuda
