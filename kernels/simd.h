// One vector of float32 at the width of the instruction set the file is compiled for.
//
// Include only from *_cpu.cpp files. They are compiled once for each level with HS_ISA set;
// everything they define must stand in namespace HS_ISA_NS, so that no function built for a wide
// level can be linked in place of a baseline one. For the same reason such files use no std::
// template that is not certain to be inlined.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#define HS_ISA_CAT_(a, b) a##b
#define HS_ISA_CAT(a, b) HS_ISA_CAT_(a, b)
#define HS_ISA_NS HS_ISA_CAT(isa_, HS_ISA)
#define HS_INLINE [[gnu::always_inline]] static inline

namespace hs::HS_ISA_NS {

#if defined(HS_LANES)
constexpr int kLanes = HS_LANES;  // tests: the logic of a width that this machine may not have
#elif defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float F32 __attribute__((vector_size(kLanes * 4)));
typedef uint32_t U32 __attribute__((vector_size(kLanes * 4)));
typedef int32_t I32 __attribute__((vector_size(kLanes * 4)));
typedef uint16_t U16 __attribute__((vector_size(kLanes * 2)));

HS_INLINE F32 load(const float* p) {
  F32 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
HS_INLINE void store(float* p, F32 v) {
  std::memcpy(p, &v, sizeof v);
}
// Minus zero, since x - 0 is x for every x and compiles to a broadcast alone; 0 + x would turn -0
// into +0.
HS_INLINE F32 splat(float x) {
  return x - F32{};
}

// bfloat16 is the upper half of a float32.
HS_INLINE F32 load_bf16(const uint16_t* p) {
  U16 half;
  std::memcpy(&half, p, sizeof half);
  U32 wide = __builtin_convertvector(half, U32) << 16;
  F32 v;
  std::memcpy(&v, &wide, sizeof v);
  return v;
}
// Round to nearest, ties to even; NaN stays NaN.
HS_INLINE void store_bf16(uint16_t* p, F32 v) {
  U32 bits;
  std::memcpy(&bits, &v, sizeof bits);
  U32 rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  U32 is_nan = reinterpret_cast<U32>(v != v);
  rounded = (is_nan & ((bits >> 16) | 0x40)) | (~is_nan & rounded);
  U16 half = __builtin_convertvector(rounded, U16);
  std::memcpy(p, &half, sizeof half);
}

HS_INLINE F32 fma(F32 a, F32 b, F32 c) {
  return a * b + c;
}  // contracted to one instruction where there is one
HS_INLINE F32 max(F32 a, F32 b) {
  return a > b ? a : b;
}
HS_INLINE F32 min(F32 a, F32 b) {
  return a < b ? a : b;
}

// Lane i of the result is lane i ^ Step.
template <int Step>
HS_INLINE F32 swap_lanes(F32 v) {
  return [v]<int... lane>(std::integer_sequence<int, lane...>) __attribute__((always_inline)) {
    return __builtin_shufflevector(v, v, (lane ^ Step)...);
  }(std::make_integer_sequence<int, kLanes>{});
}
// Halves are added (compared) until one lane is left.
HS_INLINE float sum(F32 v) {
#if defined(__AVX512F__)
  v = v + swap_lanes<8>(v);
#endif
#if defined(__AVX2__)
  v = v + swap_lanes<4>(v);
#endif
  v = v + swap_lanes<2>(v);
  v = v + swap_lanes<1>(v);
  return v[0];
}
HS_INLINE float max_lane(F32 v) {
#if defined(__AVX512F__)
  v = max(v, swap_lanes<8>(v));
#endif
#if defined(__AVX2__)
  v = max(v, swap_lanes<4>(v));
#endif
  v = max(v, swap_lanes<2>(v));
  v = max(v, swap_lanes<1>(v));
  return v[0];
}

}  // namespace hs::HS_ISA_NS
