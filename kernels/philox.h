// Philox4x32-10, a counter-based random generator: Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011). The same key and counter always give the same four words,
// so no state is kept anywhere.
#pragma once

#include <cstdint>

namespace hs {

struct PhiloxBlock {
  uint32_t word[4];
};

// Static and always inlined, because kernels compiled for several instruction sets include it;
// constexpr, so that nvcc compiles it for GPUs, too.
[[gnu::always_inline]] static inline constexpr PhiloxBlock philox4x32(PhiloxBlock counter,
                                                                      uint64_t key) {
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter.word[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter.word[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

}  // namespace hs
