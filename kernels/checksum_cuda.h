// A fingerprint of memory on a GPU, and whether the numbers in it are finite: the sum and the test
// that device/memory_check.h defines, in parts that the host adds up.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"

namespace hs::cuda {

// All pointers are device memory.

struct ChecksumRange {
  const void* data = nullptr;  // any address
  uint64_t bytes = 0;
  uint64_t first_word = 0;  // number of its first word of 8 bytes among those of all ranges
};

// What one block found: words add up in any order, and so do parts.
struct ChecksumPart {
  uint64_t sum = 0;
  uint64_t not_finite = 0;  // not 0: some number is a NaN or an infinity
};

struct ChecksumParams {
  const ChecksumRange* ranges = nullptr;  // (n_ranges), none empty, first_word ascending, gapless
  int32_t n_ranges = 0;
  uint64_t n_words = 0;           // of these ranges
  DType dtype = DType::kU8;       // of the numbers, which begin at the start of each range
  ChecksumPart* parts = nullptr;  // (n_parts), all are written
  int32_t n_parts = 0;            // 1 .. 65535: blocks at work
};
cudaError_t checksum(const ChecksumParams& params, cudaStream_t stream);

}  // namespace hs::cuda
