// One row of logits as fixed-point probabilities.
//
// A token's weight is round(2^30 exp((logit - largest) / temperature)), a 32-bit integer. Sums of
// weights are exact, so neither the vector width nor the order of adding can move a sampled token.
// A token 2^31 times less likely than the top one has weight 0.
#pragma once

#include "kernels/simd_math.h"

namespace hs::HS_ISA_NS {

constexpr int64_t kWeightBlock = 1024;  // tokens whose weights are summed up beforehand
constexpr float kTopWeight = 0x1p30F;

// The row being sampled and its work area.
struct WeightedRow {
  const float* x = nullptr;  // (n) logits
  int64_t n = 0;
  float largest = 0;
  float inverse_temperature = 1;
  uint32_t* weight = nullptr;     // (n)
  uint64_t* block_sum = nullptr;  // (ceil(n / kWeightBlock))
  uint64_t total = 0;
};

HS_INLINE bool any(I32 mask) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask)) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_epi8(reinterpret_cast<__m256i>(mask)) != 0;
#else
  return _mm_movemask_epi8(reinterpret_cast<__m128i>(mask)) != 0;
#endif
}

HS_INLINE U32 load_u32_n(const uint32_t* p, int64_t n) {
  U32 v{};
  std::memcpy(&v, p, static_cast<size_t>(n) * sizeof(uint32_t));
  return v;
}

// (logit - largest) / temperature, at most 0.
HS_INLINE F32 scaled(const WeightedRow& row, F32 x) {
  return (x - row.largest) * row.inverse_temperature;
}

// Calls weigh(i, n) -> U32 for the tokens i .. i+n-1, n <= kLanes, stores the weights (lanes from n
// on must be 0) and sums them up.
template <typename Weigh>
HS_INLINE void fill_weights(WeightedRow& row, const Weigh& weigh) {
  row.total = 0;
  for (int64_t begin = 0; begin < row.n; begin += kWeightBlock) {
    const int64_t end = begin + kWeightBlock < row.n ? begin + kWeightBlock : row.n;
    U32 low{}, high{};  // sums of half words: no lane can overflow within a block
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const U32 w = weigh(i, kLanes);
      std::memcpy(row.weight + i, &w, sizeof w);
      low += w & 0xFFFF;
      high += w >> 16;
    }
    if (i < end) {
      const U32 w = weigh(i, end - i);
      std::memcpy(row.weight + i, &w, static_cast<size_t>(end - i) * sizeof(uint32_t));
      low += w & 0xFFFF;
      high += w >> 16;
    }
    uint64_t sum_of_block = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      sum_of_block += (uint64_t{high[lane]} << 16) + low[lane];
    }
    row.block_sum[begin / kWeightBlock] = sum_of_block;
    row.total += sum_of_block;
  }
}

static void weigh_row(WeightedRow& row) {
  fill_weights(row, [&row](int64_t i, int64_t n) __attribute__((always_inline)) {
    const bool full = n == kLanes;
    const F32 x = full ? load(row.x + i) : load_n(row.x + i, n);
    const F32 weight = exp(scaled(row, x)) * kTopWeight + 0.5F;
    const U32 w = reinterpret_cast<U32>(__builtin_convertvector(weight, I32));
    return full ? w : w & reinterpret_cast<U32>(lane_numbers() < static_cast<int32_t>(n));
  });
}

// The token that the weights of ids 0 .. id - 1 leave room for at `at` < total.
static int32_t token_at(const WeightedRow& row, uint64_t at) {
  int64_t block = 0;
  while (at >= row.block_sum[block]) at -= row.block_sum[block++];
  int64_t i = block * kWeightBlock;
  while (at >= row.weight[i]) at -= row.weight[i++];
  return static_cast<int32_t>(i);
}

}  // namespace hs::HS_ISA_NS
