// Stored numbers of one 16- or 32-bit format as those of another, on the host. Rounds to nearest,
// ties to even; what float16 cannot hold becomes infinity.
#pragma once

#include <cstddef>

#include "base/dtype.h"

namespace hs::cuda {

// Elements first .. first + n - 1 of `from` to to[0] .. to[n - 1]. kF32, kF16 and kBF16.
void convert_numbers(const void* from, DType from_dtype, size_t first, size_t n, void* to,
                     DType to_dtype);

}  // namespace hs::cuda
