// Proves that the checksum is the documented one, that it sees what can happen to a copy, and that
// no NaN or infinity is overlooked.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "device/memory_check.h"

namespace hs {
namespace {

MemoryCheck check(const void* data, size_t bytes, DType dtype = DType::kU8) {
  const MemoryRange range{data, bytes};
  return check_host_memory({&range, 1}, dtype);
}

std::vector<unsigned char> counting(size_t bytes) {
  std::vector<unsigned char> values(bytes);
  for (size_t i = 0; i < bytes; ++i) values[i] = static_cast<unsigned char>(i);
  return values;
}

// Sets each of n numbers in turn to `value` and counts how often that is seen.
template <typename T>
size_t times_seen(DType dtype, T ordinary, T value, size_t n) {
  size_t seen = 0;
  for (size_t i = 0; i < n; ++i) {
    std::vector<T> values(n, ordinary);
    values[i] = value;
    seen += check(values.data(), n * sizeof(T), dtype).finite ? 0U : 1U;
  }
  return seen;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_check_tests)

// Computed from the formula in the header by a separate program.
BOOST_AUTO_TEST_CASE(the_checksum_is_the_documented_sum) {
  const auto bytes = counting(100);
  BOOST_TEST(check(bytes.data(), 0).checksum == 0U);
  BOOST_TEST(check("a", 1).checksum == 0x4F5DA978776A9DB1U);
  BOOST_TEST(check(bytes.data(), 100).checksum == 0xC85491BF2F974E78U);
  const std::array<MemoryRange, 2> parts{{{bytes.data(), 10}, {bytes.data() + 10, 90}}};
  BOOST_TEST(check_host_memory(parts, DType::kU8).checksum == 0x51DF2BBD581DC3E5U);
}

BOOST_AUTO_TEST_CASE(ranges_of_whole_words_are_like_one) {
  const auto bytes = counting(4096);
  const std::array<MemoryRange, 4> parts{{{bytes.data(), 8},
                                          {bytes.data() + 8, 0},
                                          {bytes.data() + 8, 4000},
                                          {bytes.data() + 4008, 88}}};
  BOOST_TEST((check_host_memory(parts, DType::kU8) == check(bytes.data(), 4096)));
}

BOOST_AUTO_TEST_CASE(any_flipped_bit_is_seen) {
  auto bytes = counting(203);
  const uint64_t whole = check(bytes.data(), bytes.size()).checksum;
  size_t unseen = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
    unseen += check(bytes.data(), bytes.size()).checksum == whole ? 1U : 0U;
    bytes[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
  }
  BOOST_TEST(unseen == 0U);
}

BOOST_AUTO_TEST_CASE(exchanged_moved_and_stale_pieces_are_seen) {
  std::vector<float> values(1024);
  std::iota(values.begin(), values.end(), 1.0F);
  const auto sum = [](const std::vector<float>& v) {
    return check(v.data(), v.size() * 4).checksum;
  };
  const uint64_t whole = sum(values);
  size_t unseen = 0;
  constexpr size_t kPiece = 16;  // floats: 64 bytes
  for (size_t at = kPiece; at < values.size(); at += kPiece) {
    auto other = values;
    std::swap_ranges(other.begin(), other.begin() + kPiece, other.begin() + static_cast<long>(at));
    unseen += sum(other) == whole ? 1U : 0U;
    other = values;
    std::fill_n(other.begin() + static_cast<long>(at), kPiece, 0.0F);
    unseen += sum(other) == whole ? 1U : 0U;
    other = values;
    std::rotate(other.begin(), other.begin() + static_cast<long>(at), other.end());
    unseen += sum(other) == whole ? 1U : 0U;
    other = values;  // two signs
    other[at] = -other[at];
    other[at - kPiece] = -other[at - kPiece];
    unseen += sum(other) == whole ? 1U : 0U;
  }
  BOOST_TEST(unseen == 0U);
}

BOOST_AUTO_TEST_CASE(no_infinity_or_nan_is_overlooked) {
  constexpr size_t kCount = 37;  // an odd tail
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    BOOST_TEST(times_seen(DType::kF32, -1.5F, bad, kCount) == kCount);
    BOOST_TEST(times_seen<double>(DType::kF64, 1e300, double{bad}, kCount) == kCount);
  }
  for (const uint16_t bad :
       {uint16_t{0x7F80}, uint16_t{0xFF80}, uint16_t{0x7FC1}, uint16_t{0xFFFF}})
    BOOST_TEST(times_seen<uint16_t>(DType::kBF16, 0xBF80, bad, kCount) == kCount);
  for (const uint16_t bad :
       {uint16_t{0x7C00}, uint16_t{0xFC00}, uint16_t{0x7C01}, uint16_t{0xFFFF}})
    BOOST_TEST(times_seen<uint16_t>(DType::kF16, 0xBC00, bad, kCount) == kCount);
}

BOOST_AUTO_TEST_CASE(the_largest_finite_numbers_are_finite) {
  const std::vector<float> largest(33, -std::numeric_limits<float>::max());
  BOOST_TEST(check(largest.data(), largest.size() * 4, DType::kF32).finite);
  const std::vector<uint16_t> bf16(33, 0xFF7F);
  BOOST_TEST(check(bf16.data(), bf16.size() * 2, DType::kBF16).finite);
  const std::vector<uint16_t> f16(33, 0xFBFF);
  BOOST_TEST(check(f16.data(), f16.size() * 2, DType::kF16).finite);
  const std::vector<int32_t> integers(33, -1);
  BOOST_TEST(check(integers.data(), integers.size() * 4, DType::kI32).finite);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
