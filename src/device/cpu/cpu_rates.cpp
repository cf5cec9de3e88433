#include "device/cpu/cpu_rates.h"

#include <immintrin.h>

#include "kernels/isa.h"

namespace hs {
namespace {

constexpr int64_t kFmaSteps = 20000;

// Four streams at once, since one alone does not keep enough lines on their way.
__attribute__((target("avx2"))) uint64_t read_avx2(const std::byte* p, size_t bytes) {
  __m256i sums[8] = {};
  const size_t stream = bytes / 4;
  for (size_t i = 0; i < stream; i += 64) {
#pragma GCC unroll 4
    for (size_t s = 0; s < 4; ++s) {
      const std::byte* line = p + s * stream + i;
      _mm_prefetch(reinterpret_cast<const char*>(line + 1536), _MM_HINT_T0);
      const auto* halves = reinterpret_cast<const __m256i*>(line);
      sums[2 * s] = _mm256_xor_si256(sums[2 * s], _mm256_load_si256(halves));
      sums[2 * s + 1] = _mm256_xor_si256(sums[2 * s + 1], _mm256_load_si256(halves + 1));
    }
  }
  for (int v = 1; v < 8; ++v) sums[0] = _mm256_xor_si256(sums[0], sums[v]);
  return static_cast<uint64_t>(_mm256_extract_epi64(sums[0], 0));
}

uint64_t read_sse2(const std::byte* p, size_t bytes) {
  __m128i sums[4] = {};
  const size_t stream = bytes / 4;
  for (size_t i = 0; i < stream; i += 16) {
    for (size_t s = 0; s < 4; ++s) {
      const auto* quarter = reinterpret_cast<const __m128i*>(p + s * stream + i);
      sums[s] = _mm_xor_si128(sums[s], _mm_load_si128(quarter));
    }
  }
  for (int s = 1; s < 4; ++s) sums[0] = _mm_xor_si128(sums[0], sums[s]);
  return static_cast<uint64_t>(_mm_cvtsi128_si64(sums[0]));
}

// Twelve chains hide the latency; the asm keeps the chains alive.
__attribute__((target("avx2,fma"))) double fma_avx2() {
  __m256 sums[12];
  for (auto& sum : sums) sum = _mm256_set1_ps(1.0F);
  const __m256 factor = _mm256_set1_ps(0.999F);
  for (int64_t i = 0; i < kFmaSteps; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < 12; ++c) sums[c] = _mm256_fmadd_ps(sums[c], factor, factor);
  }
#pragma GCC unroll 12
  for (int c = 0; c < 12; ++c) __asm__ volatile("" : : "x"(sums[c]));
  return 2.0 * 8 * 12 * kFmaSteps;
}

__attribute__((target("avx512f"))) double fma_avx512() {
  __m512 sums[12];
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0F);
  const __m512 factor = _mm512_set1_ps(0.999F);
  for (int64_t i = 0; i < kFmaSteps; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < 12; ++c) sums[c] = _mm512_fmadd_ps(sums[c], factor, factor);
  }
#pragma GCC unroll 12
  for (int c = 0; c < 12; ++c) __asm__ volatile("" : : "v"(sums[c]));
  return 2.0 * 16 * 12 * kFmaSteps;
}

double fma_sse2() {
  __m128 sums[12];
  for (auto& sum : sums) sum = _mm_set1_ps(1.0F);
  const __m128 factor = _mm_set1_ps(0.999F);
  for (int64_t i = 0; i < kFmaSteps; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < 12; ++c) sums[c] = _mm_add_ps(_mm_mul_ps(sums[c], factor), factor);
  }
#pragma GCC unroll 12
  for (int c = 0; c < 12; ++c) __asm__ volatile("" : : "x"(sums[c]));
  return 2.0 * 4 * 12 * kFmaSteps;
}

}  // namespace

uint64_t read_streams(const std::byte* memory, size_t bytes) {
  return cpu_isa() >= Isa::kAvx2 ? read_avx2(memory, bytes) : read_sse2(memory, bytes);
}

double fma_burst() {
  if (cpu_isa() >= Isa::kAvx512) return fma_avx512();
  return cpu_isa() >= Isa::kAvx2 ? fma_avx2() : fma_sse2();
}

}  // namespace hs
