#include "device/cuda/convert.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace hs::cuda {
namespace {

struct Bf16 {
  uint16_t bits;
};

float to_float(float x) {
  return x;
}
float to_float(_Float16 x) {
  return static_cast<float>(x);
}
float to_float(Bf16 x) {
  return std::bit_cast<float>(uint32_t{x.bits} << 16U);
}

template <typename T>
T from_float(float x) {
  return static_cast<T>(x);
}
template <>
Bf16 from_float<Bf16>(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return {static_cast<uint16_t>((bits >> 16U) | 0x40U)};
  return {static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

template <typename From, typename To>
void convert(const std::byte* from, size_t n, std::byte* to) {
  for (size_t i = 0; i < n; ++i) {
    From x;
    std::memcpy(&x, from + i * sizeof x, sizeof x);
    const To y = from_float<To>(to_float(x));
    std::memcpy(to + i * sizeof y, &y, sizeof y);
  }
}

template <typename From>
void convert_from(const std::byte* from, size_t n, std::byte* to, DType to_dtype) {
  switch (to_dtype) {
    case DType::kF32:
      return convert<From, float>(from, n, to);
    case DType::kF16:
      return convert<From, _Float16>(from, n, to);
    default:
      HS_CHECK(to_dtype == DType::kBF16);
      return convert<From, Bf16>(from, n, to);
  }
}

}  // namespace

void convert_numbers(const void* from, DType from_dtype, size_t first, size_t n, void* to,
                     DType to_dtype) {
  const auto* source = static_cast<const std::byte*>(from) + first * dtype_bytes(from_dtype);
  auto* target = static_cast<std::byte*>(to);
  if (from_dtype == to_dtype) {
    std::memcpy(target, source, n * dtype_bytes(to_dtype));
    return;
  }
  switch (from_dtype) {
    case DType::kF32:
      return convert_from<float>(source, n, target, to_dtype);
    case DType::kF16:
      return convert_from<_Float16>(source, n, target, to_dtype);
    default:
      HS_CHECK(from_dtype == DType::kBF16);
      return convert_from<Bf16>(source, n, target, to_dtype);
  }
}

}  // namespace hs::cuda
