// bfloat16 and IEEE binary16 on the host, rounding to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace hs::cuda_emu {

inline float bf16_to_float(uint16_t x) {
  return std::bit_cast<float>(uint32_t{x} << 16);
}

inline uint16_t float_to_bf16(float x) {
  if (std::isnan(x)) return 0x7FFF;
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float f16_to_float(uint16_t x) {
  return static_cast<float>(std::bit_cast<_Float16>(x));
}

inline uint16_t float_to_f16(float x) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(x));
}

}  // namespace hs::cuda_emu
