// On top of simd.h: partial vectors for the ends of rows, float16, and exp.
//
// Include only from *_cpu.cpp files and their headers (see simd.h).
#pragma once

#include "kernels/simd.h"

namespace hs::HS_ISA_NS {

HS_INLINE I32 lane_numbers() {
  I32 v;
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}

// The first n lanes from p, 0 <= n <= kLanes; the rest are 0 and their memory is not touched.
HS_INLINE F32 load_n(const float* p, int64_t n) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << n) - 1), p);
#elif defined(__AVX2__)
  const I32 mask = lane_numbers() < static_cast<int32_t>(n);
  return _mm256_maskload_ps(p, reinterpret_cast<__m256i>(mask));
#else
  F32 v{};
  for (int64_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
#endif
}
HS_INLINE void store_n(float* p, F32 v, int64_t n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << n) - 1), v);
#elif defined(__AVX2__)
  const I32 mask = lane_numbers() < static_cast<int32_t>(n);
  _mm256_maskstore_ps(p, reinterpret_cast<__m256i>(mask), v);
#else
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
#endif
}

HS_INLINE F32 load_bf16_n(const uint16_t* p, int64_t n) {
  uint16_t padded[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) padded[i] = p[i];
  return load_bf16(padded);
}
HS_INLINE void store_bf16_n(uint16_t* p, F32 v, int64_t n) {
  uint16_t padded[kLanes];
  store_bf16(padded, v);
  for (int64_t i = 0; i < n; ++i) p[i] = padded[i];
}

// IEEE binary16, subnormals, infinities and NaN included.
HS_INLINE F32 load_f16(const uint16_t* p) {
#if defined(__AVX512F__)
  return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__F16C__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  U16 half;
  std::memcpy(&half, p, sizeof half);
  const U32 wide = __builtin_convertvector(half, U32);
  // Exponent and mantissa in float32 places; one product then corrects the bias and normalises
  // subnormals.
  const F32 shifted = reinterpret_cast<F32>((wide & 0x7FFF) << 13);
  U32 bits = reinterpret_cast<U32>(shifted * 0x1p112F);
  const U32 special = reinterpret_cast<U32>((wide & 0x7C00) == 0x7C00);
  bits |= special & 0x7F800000;
  return reinterpret_cast<F32>(bits | ((wide & 0x8000) << 16));
#endif
}
HS_INLINE F32 load_f16_n(const uint16_t* p, int64_t n) {
  uint16_t padded[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) padded[i] = p[i];
  return load_f16(padded);
}

// e^x within 2 units in the last place (Cephes polynomial). Below -87.33 the result is 0,
// above 88.37 it stays at e^88.37; NaN stays NaN. Without contraction to FMA the result is the same
// at every level.
HS_INLINE F32 exp(F32 x) {
  constexpr float kLowest = -87.33F, kHighest = 88.37F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const F32 clamped = x > splat(kHighest) ? splat(kHighest) : x;
  const F32 n = (clamped * 1.44269504088896341F + kRound) - kRound;
  F32 r = clamped - n * 0.693359375F;
  r = r + n * 2.12194440e-4F;
  F32 p = splat(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r;
  p = p + 1.0F;
  const I32 scale = (__builtin_convertvector(n, I32) + 127) << 23;
  const F32 y = p * reinterpret_cast<F32>(scale);
  return x < splat(kLowest) ? F32{} : y;
}

}  // namespace hs::HS_ISA_NS
