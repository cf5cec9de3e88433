// How NaNs and infinities are found in whole words of 8 bytes: (word & mask) + lowest carries into
// the bits of `carry` where some number's exponent is all ones.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace hs {

// The exponents of the numbers in a word; adding `lowest` makes one that is all ones overflow. The
// exponent then carries into the sign's place, which the mask has cleared.
struct ExponentBits {
  uint64_t mask = 0;
  uint64_t lowest = 0;
  uint64_t carry = 0;
};

constexpr ExponentBits exponent_bits(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {0x7FF0000000000000U, 0x0010000000000000U, 0x8000000000000000U};
    case DType::kF32:
      return {0x7F8000007F800000U, 0x0080000000800000U, 0x8000000080000000U};
    case DType::kBF16:
      return {0x7F807F807F807F80U, 0x0080008000800080U, 0x8000800080008000U};
    case DType::kF16:
      return {0x7C007C007C007C00U, 0x0400040004000400U, 0x8000800080008000U};
    default:
      return {};
  }
}

}  // namespace hs
