// Four elements of some rows turned into four vectors across the rows.
//
// Include only from *_cpu.cpp files and their headers (see simd.h).
#pragma once

#include "kernels/simd_math.h"

namespace hs::HS_ISA_NS {

// In each 128 bits: units of kUnit floats from a and b in turn, from the lower half of both or from
// the upper. Becomes one unpack instruction.
template <int kUnit, bool kUpper>
HS_INLINE F32 unpack(F32 a, F32 b) {
  constexpr auto from = [](int lane) {
    const int place = lane % 4;
    const int source =
        lane - place + (kUpper ? 2 : 0) + place / (2 * kUnit) * kUnit + place % kUnit;
    return place / kUnit % 2 == 0 ? source : kLanes + source;
  };
  return [=]<int... lane>(std::integer_sequence<int, lane...>) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, from(lane)...);
  }(std::make_integer_sequence<int, kLanes>{});
}

// Four floats of each of the rows rows[0], rows[4], rows[8] ...: one row a 128-bit lane.
HS_INLINE F32 load_every_fourth(const float* const* rows, int64_t at) {
  F32 v;
#if defined(__AVX2__) && !defined(__AVX512F__)
  const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(rows[0] + at));
  v = _mm256_insertf128_ps(low, _mm_loadu_ps(rows[4] + at), 1);
#else
  for (int lane = 0; lane < kLanes / 4; ++lane) {
    std::memcpy(reinterpret_cast<char*>(&v) + 16 * lane, rows[4 * lane] + at, 16);
  }
#endif
  return v;
}
HS_INLINE F32 load_every_fourth(const uint16_t* const* rows, int64_t at) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(rows[0] + at));
  const __m128i both = _mm_castpd_si128(
      _mm_loadh_pd(_mm_castsi128_pd(low), reinterpret_cast<const double*>(rows[4] + at)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(both), 16));
#else
  uint16_t part[kLanes];
  for (int lane = 0; lane < kLanes / 4; ++lane)
    std::memcpy(part + 4 * lane, rows[4 * lane] + at, 8);
  return load_bf16(part);
#endif
}

// Elements at .. at+3 of the rows rows[0 .. kLanes-1]: column[c] has element at + c of each.
template <typename T>
HS_INLINE void transpose_four(const T* const* rows, int64_t at, F32 (&column)[4]) {
  const F32 r0 = load_every_fourth(rows + 0, at), r1 = load_every_fourth(rows + 1, at);
  const F32 r2 = load_every_fourth(rows + 2, at), r3 = load_every_fourth(rows + 3, at);
  const F32 a = unpack<1, false>(r0, r1), b = unpack<1, false>(r2, r3);
  const F32 c = unpack<1, true>(r0, r1), e = unpack<1, true>(r2, r3);
  column[0] = unpack<2, false>(a, b);
  column[1] = unpack<2, true>(a, b);
  column[2] = unpack<2, false>(c, e);
  column[3] = unpack<2, true>(c, e);
}

}  // namespace hs::HS_ISA_NS
