// A fingerprint of memory that any device computes in parallel with the same result, and whether
// the numbers in it are finite.
//
// The ranges are read as words of 8 bytes, little-endian; the last word of each range is filled up
// with zeros. Words are numbered i = 0, 1, 2, ... through all ranges. With all arithmetic modulo
// 2^64,
//
//   checksum = sum over i of mix64(word_i + (i + 1) * 0x9E3779B97F4A7C15)
//
// A sum needs no order, so threads add up their words and then their sums. mix64 is one-to-one: a
// change within one word always changes the checksum. Any other change (pieces exchanged, moved,
// left out) goes unseen once in about 2^64 times. It is no defence against someone who chooses the
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace hs {

struct MemoryRange {
  const void* data = nullptr;
  size_t bytes = 0;
};

struct MemoryCheck {
  uint64_t checksum = 0;
  // No NaN or infinity stands among the values, which begin at the start of each range. True of
  // dtypes that cannot hold one.
  bool finite = true;
  bool operator==(const MemoryCheck&) const = default;
};

// The output function of SplitMix64 (Steele, Lea, Flood 2014, with Stafford's constants 13).
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// Of host memory, on the calling thread.
MemoryCheck check_host_memory(std::span<const MemoryRange> ranges, DType dtype);

}  // namespace hs
