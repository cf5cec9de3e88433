#include "device/memory_check.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/exponent_bits.h"

namespace hs {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kStep = 0x9E3779B97F4A7C15U;

class Checker {
 public:
  explicit Checker(DType dtype) : bits_(exponent_bits(dtype)) {}

  void add(MemoryRange range) {
    const auto* bytes = static_cast<const std::byte*>(range.data);
    size_t left = range.bytes;
    // Copies in registers, and sums that need not wait for each other.
    const ExponentBits bits = bits_;
    uint64_t key = key_;
    uint64_t carries[kLanes] = {};
    uint64_t sums[kLanes] = {};
    for (; left >= kLanes * sizeof(uint64_t); left -= kLanes * sizeof(uint64_t)) {
#pragma GCC unroll 4
      for (size_t lane = 0; lane < kLanes; ++lane, bytes += sizeof(uint64_t)) {
        uint64_t word;
        std::memcpy(&word, bytes, sizeof word);
        carries[lane] |= (word & bits.mask) + bits.lowest;
        sums[lane] += mix64(word + key + (lane + 1) * kStep);
      }
      key += kLanes * kStep;
    }
    while (left > 0) {
      uint64_t word = 0;
      const size_t n = std::min<size_t>(left, sizeof word);
      std::memcpy(&word, bytes, n);
      carries[0] |= (word & bits.mask) + bits.lowest;
      sums[0] += mix64(word + (key += kStep));
      left -= n;
      bytes += n;
    }
    key_ = key;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sum_ += sums[lane];
      carries_ |= carries[lane] & bits.carry;
    }
  }
  MemoryCheck result() const { return {.checksum = sum_, .finite = carries_ == 0}; }

 private:
  static constexpr size_t kLanes = 4;

  ExponentBits bits_;
  uint64_t key_ = 0;
  uint64_t sum_ = 0;
  uint64_t carries_ = 0;
};

}  // namespace

MemoryCheck check_host_memory(std::span<const MemoryRange> ranges, DType dtype) {
  Checker checker(dtype);
  for (const MemoryRange& range : ranges) checker.add(range);
  return checker.result();
}

}  // namespace hs
