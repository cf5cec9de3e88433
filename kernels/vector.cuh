// Elements in memory as a kernel's threads take them: kN at a time in one access, as float32.
#pragma once

#include "kernels/portable.cuh"

namespace hs::cuda {

// Elements of a 16-byte access.
template <typename T>
constexpr int kPerAccess = 16 / static_cast<int>(sizeof(T));

template <typename T, int kN>
struct alignas(sizeof(T) * kN) Pack {
  T v[kN];
};

template <typename T, int kN>
HS_DEVICE void load_floats(const T* from, float (&to)[kN]) {
  const auto pack = *reinterpret_cast<const Pack<T, kN>*>(from);
  HS_UNROLL
  for (int i = 0; i < kN; ++i) to[i] = to_float(pack.v[i]);
}

template <typename T, int kN>
HS_DEVICE void store_floats(T* to, const float (&from)[kN]) {
  Pack<T, kN> pack;
  HS_UNROLL
  for (int i = 0; i < kN; ++i) pack.v[i] = from_float<T>(from[i]);
  *reinterpret_cast<Pack<T, kN>*>(to) = pack;
}

// 16 bytes in registers as floats.
template <typename T>
HS_DEVICE void unpack(uint4 from, float (&to)[kPerAccess<T>]) {
  const uint32_t words[4] = {from.x, from.y, from.z, from.w};
  HS_UNROLL
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      to[i] = float_of_bits(words[i]);
    } else {
      to[2 * i] = to_float(T{static_cast<uint16_t>(words[i])});
      to[2 * i + 1] = to_float(T{static_cast<uint16_t>(words[i] >> 16)});
    }
  }
}

// Whether rows that begin at p, stride elements apart, can be taken 16 bytes at a time.
inline bool in_16_bytes(const void* p, int64_t stride, size_t element_bytes) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0 &&
         static_cast<uint64_t>(stride) * element_bytes % 16 == 0;
}

// Calls run(T{}) with the type of a dtype; cudaErrorInvalidValue for others than float32, float16
// and bfloat16.
template <typename Run>
cudaError_t with_type(DType dtype, const Run& run) {
  switch (dtype) {
    case DType::kF32:
      return run(float{});
    case DType::kF16:
      return run(F16{});
    case DType::kBF16:
      return run(BF16{});
    default:
      return cudaErrorInvalidValue;
  }
}

// The same for the types that tensor cores take.
template <typename Run>
cudaError_t with_half_type(DType dtype, const Run& run) {
  switch (dtype) {
    case DType::kF16:
      return run(F16{});
    case DType::kBF16:
      return run(BF16{});
    default:
      return cudaErrorInvalidValue;
  }
}

constexpr int64_t div_up(int64_t n, int64_t by) {
  return (n + by - 1) / by;
}

}  // namespace hs::cuda
