// Weights share huge chunks of memory: they do not overlap, are zero and aligned, and outlive the
// arena.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "device/cpu/weight_arena.h"

using hs::Buffer;
using hs::WeightArena;

namespace {

constexpr hs::DeviceId kDevice{hs::DeviceId::Kind::kCpu, 3};

bool is_filled(const Buffer& buffer, uint8_t value) {
  const auto* bytes = static_cast<const uint8_t*>(buffer.data());
  return std::all_of(bytes, bytes + buffer.bytes(), [&](uint8_t b) { return b == value; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(weight_arena_tests)

BOOST_AUTO_TEST_CASE(buffers_are_zero_aligned_and_apart) {
  constexpr unsigned kSeed = 7;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  std::mt19937 random(kSeed);
  WeightArena arena;
  std::vector<Buffer> buffers;
  size_t total = 0;
  while (total < 3 * WeightArena::kChunkBytes) {
    const size_t bytes = random() % (4 << 20) + 1;
    buffers.push_back(arena.allocate(kDevice, bytes));
    Buffer& buffer = buffers.back();
    BOOST_REQUIRE(buffer.data() != nullptr);
    BOOST_TEST(buffer.bytes() == bytes);
    BOOST_TEST((buffer.device() == kDevice));
    BOOST_TEST(reinterpret_cast<uintptr_t>(buffer.data()) % 64 == 0U);
    BOOST_TEST(is_filled(buffer, 0));
    std::memset(buffer.data(), static_cast<int>(buffers.size() % 256), bytes);
    total += bytes;
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    BOOST_TEST(is_filled(buffers[i], static_cast<uint8_t>((i + 1) % 256)));
}

BOOST_AUTO_TEST_CASE(matrices_of_the_largest_shared_size_and_one_byte_more) {
  WeightArena arena;
  for (const size_t bytes : {WeightArena::kAlone - 1, WeightArena::kAlone, WeightArena::kAlone + 1,
                             2 * WeightArena::kChunkBytes}) {
    Buffer buffer = arena.allocate(kDevice, bytes);
    BOOST_REQUIRE(buffer.data() != nullptr);
    std::memset(buffer.data(), 1, bytes);
    BOOST_TEST(is_filled(buffer, 1));
  }
}

BOOST_AUTO_TEST_CASE(buffers_outlive_the_arena_and_end_on_another_thread) {
  std::vector<Buffer> buffers;
  {
    WeightArena arena;
    for (int i = 0; i < 20; ++i) buffers.push_back(arena.allocate(kDevice, 3 << 20));
  }
  for (Buffer& buffer : buffers) std::memset(buffer.data(), 5, buffer.bytes());
  std::thread([rest = std::move(buffers)]() mutable {
    for (const Buffer& buffer : rest) BOOST_TEST(is_filled(buffer, 5));
    rest.clear();
  }).join();
}

BOOST_AUTO_TEST_SUITE_END()
