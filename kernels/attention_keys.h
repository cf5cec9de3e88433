// One block of keys and values brought into the form the products need: keys transposed, both
// float32.
//
// Done once for a block and then used by all query rows of a tile.
#pragma once

#include "kernels/simd_math.h"

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

HS_INLINE F32 unpack_low(F32 a, F32 b) {
#if defined(__AVX512F__)
  return _mm512_maskz_unpacklo_ps(0xFFFF, a, b);
#elif defined(__AVX2__)
  return _mm256_unpacklo_ps(a, b);
#else
  return _mm_unpacklo_ps(a, b);
#endif
}
HS_INLINE F32 unpack_high(F32 a, F32 b) {
#if defined(__AVX512F__)
  return _mm512_maskz_unpackhi_ps(0xFFFF, a, b);
#elif defined(__AVX2__)
  return _mm256_unpackhi_ps(a, b);
#else
  return _mm_unpackhi_ps(a, b);
#endif
}
// The same with pairs of floats.
HS_INLINE F32 unpack_low2(F32 a, F32 b) {
#if defined(__AVX512F__)
  return _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(0xFF, _mm512_castps_pd(a), _mm512_castps_pd(b)));
#elif defined(__AVX2__)
  return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
#else
  return _mm_castpd_ps(_mm_unpacklo_pd(_mm_castps_pd(a), _mm_castps_pd(b)));
#endif
}
HS_INLINE F32 unpack_high2(F32 a, F32 b) {
#if defined(__AVX512F__)
  return _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(0xFF, _mm512_castps_pd(a), _mm512_castps_pd(b)));
#elif defined(__AVX2__)
  return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
#else
  return _mm_castpd_ps(_mm_unpackhi_pd(_mm_castps_pd(a), _mm_castps_pd(b)));
#endif
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
  const F32 a = unpack_low(r0, r1), b = unpack_low(r2, r3);
  const F32 c = unpack_high(r0, r1), e = unpack_high(r2, r3);
  column[0] = unpack_low2(a, b);
  column[1] = unpack_high2(a, b);
  column[2] = unpack_low2(c, e);
  column[3] = unpack_high2(c, e);
}

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
