// Proves the checksum of the emulated GPU to be the host's: odd sizes and addresses, many ranges,
// parts of several launches, numbers that are not finite.
#include "cuda/cuda_testing.h"
#include "device/memory_check.h"
#include "kernels/checksum_cuda.h"

namespace hs::test {
namespace {

struct Piece {
  size_t offset;
  size_t bytes;
};

// The checksum of some pieces of `memory`, by the kernel in launches of at most `per_launch`.
MemoryCheck by_kernel(const DeviceArray<unsigned char>& memory, const std::vector<Piece>& pieces,
                      DType dtype, int n_parts, size_t per_launch) {
  MemoryCheck result;
  uint64_t first_word = 0;
  for (size_t at = 0; at < pieces.size(); at += per_launch) {
    std::vector<cuda::ChecksumRange> ranges;
    const uint64_t begin = first_word;
    for (size_t i = at; i < std::min(pieces.size(), at + per_launch); ++i) {
      ranges.push_back({memory.data() + pieces[i].offset, pieces[i].bytes, first_word});
      first_word += (pieces[i].bytes + 7) / 8;
    }
    const DeviceArray<cuda::ChecksumRange> table(ranges);
    const DeviceArray<cuda::ChecksumPart> parts(static_cast<size_t>(n_parts));
    BOOST_TEST(cuda::checksum({.ranges = table.data(),
                               .n_ranges = static_cast<int32_t>(ranges.size()),
                               .n_words = first_word - begin,
                               .dtype = dtype,
                               .parts = parts.data(),
                               .n_parts = n_parts},
                              nullptr) == cudaSuccess);
    for (const auto& part : parts.get()) {
      result.checksum += part.sum;
      result.finite = result.finite && part.not_finite == 0;
    }
    BOOST_TEST(parts.intact());
  }
  return result;
}

MemoryCheck by_host(const DeviceArray<unsigned char>& memory, const std::vector<Piece>& pieces,
                    DType dtype) {
  std::vector<MemoryRange> ranges;
  for (const Piece& piece : pieces) ranges.push_back({memory.data() + piece.offset, piece.bytes});
  return check_host_memory(ranges, dtype);
}

std::vector<unsigned char> bytes_of(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<unsigned char> bytes(n);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(checksum_cuda_tests)

BOOST_AUTO_TEST_CASE(equals_the_hosts_at_any_address_and_size) {
  const DeviceArray<unsigned char> memory(bytes_of(20000, 5));
  under_every_schedule([&] {
    for (const size_t bytes : {1U, 7U, 8U, 9U, 63U, 2048U, 2049U, 19990U}) {
      for (const size_t offset : {0U, 1U, 4U, 8U}) {
        const std::vector<Piece> pieces = {{offset, bytes}};
        for (const int n_parts : {1, 3}) {
          const auto got = by_kernel(memory, pieces, DType::kU8, n_parts, 1);
          BOOST_TEST((got == by_host(memory, pieces, DType::kU8)), bytes << " at " << offset);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(many_ranges_in_several_launches_are_one_sum) {
  const DeviceArray<unsigned char> memory(bytes_of(9000, 6));
  std::mt19937 random(7);
  std::vector<Piece> pieces;
  for (size_t at = 0; at < 8500;) {
    const size_t bytes = 1 + random() % 300;
    pieces.push_back({at, bytes});
    at += bytes + random() % 5;
  }
  under_every_schedule([&] {
    for (const size_t per_launch : {size_t{1}, size_t{7}, pieces.size()}) {
      BOOST_TEST((by_kernel(memory, pieces, DType::kI8, 2, per_launch) ==
                  by_host(memory, pieces, DType::kI8)));
    }
  });
}

BOOST_AUTO_TEST_CASE(one_number_that_is_not_finite_is_seen) {
  constexpr size_t kNumbers = 700;
  for (const DType dtype : kDTypes) {
    const size_t size = dtype_bytes(dtype);
    Values values(dtype, random_floats(kNumbers, 8));
    DeviceArray<unsigned char> memory(kNumbers * size);
    std::memcpy(memory.data(), values.data(), kNumbers * size);
    const std::vector<Piece> pieces = {{0, kNumbers * size}};
    BOOST_TEST(by_kernel(memory, pieces, dtype, 2, 1).finite);
    for (const float odd : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
      for (const size_t at : {size_t{0}, size_t{333}, kNumbers - 1}) {
        Values one(dtype, std::vector<float>{odd});
        std::memcpy(memory.data(), values.data(), kNumbers * size);
        std::memcpy(memory.data() + at * size, one.data(), size);
        const auto got = by_kernel(memory, pieces, dtype, 2, 1);
        BOOST_TEST(!got.finite);
        BOOST_TEST((got == by_host(memory, pieces, dtype)));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
