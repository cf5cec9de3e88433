// Small loads that reach a core's limits, to measure those.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hs {

// Reads all of `memory` in four streams at once, and returns something of it, so that no read can
// be left out. 64-byte aligned, bytes a multiple of 256.
uint64_t read_streams(const std::byte* memory, size_t bytes);

// A burst of independent float32 multiply-adds in registers, some tens of microseconds. Returns how
// many floating-point operations it was.
double fma_burst();

}  // namespace hs
