// Threads stride over the words of all ranges; a thread looks its range up once and walks on from
// there.
#include "kernels/checksum_cuda.h"
#include "kernels/exponent_bits.h"
#include "kernels/portable.cuh"
#include "kernels/reduce.cuh"

namespace hs::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr uint64_t kStep = 0x9E3779B97F4A7C15U;

struct Or {
  HS_DEVICE static uint64_t combine(uint64_t a, uint64_t b) { return a | b; }
};

HS_DEVICE uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// Word `index` of a range, filled up with zeros behind its end.
HS_DEVICE uint64_t load_word(const ChecksumRange& range, uint64_t index) {
  const auto* bytes = static_cast<const unsigned char*>(range.data) + index * 8;
  const uint64_t left = range.bytes - index * 8;
  if (left >= 8 && reinterpret_cast<uintptr_t>(bytes) % 8 == 0) {
    return *reinterpret_cast<const uint64_t*>(bytes);
  }
  uint64_t word = 0;
  for (uint64_t i = 0; i < (left < 8 ? left : 8); ++i) word |= uint64_t{bytes[i]} << (8 * i);
  return word;
}

// The last range whose first word is at most `word`.
HS_DEVICE int find_range(const ChecksumParams& p, uint64_t word) {
  int low = 0, high = p.n_ranges - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (p.ranges[middle].first_word <= word) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

__global__ void __launch_bounds__(kThreads) checksum_kernel(ChecksumParams p, ExponentBits bits) {
  const uint64_t first = p.ranges[0].first_word, end = first + p.n_words;
  const uint64_t apart = uint64_t{gridDim.x} * kThreads;
  uint64_t word = first + uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  uint64_t sum = 0, carries = 0;
  int at = word < end ? find_range(p, word) : 0;
  for (; word < end; word += apart) {
    while (at + 1 < p.n_ranges && p.ranges[at + 1].first_word <= word) ++at;
    const uint64_t value = load_word(p.ranges[at], word - p.ranges[at].first_word);
    carries |= (value & bits.mask) + bits.lowest;
    sum += mix64(value + (word + 1) * kStep);
  }
  auto* const area = shared_as<uint64_t>();
  sum = reduce_block<Sum>(sum, uint64_t{0}, area);
  carries = reduce_block<Or>(carries, uint64_t{0}, area + kWarpsMax);
  if (threadIdx.x == 0) p.parts[blockIdx.x] = {sum, carries & bits.carry};
}

}  // namespace

cudaError_t checksum(const ChecksumParams& params, cudaStream_t stream) {
  const ChecksumParams& p = params;
  if (p.n_ranges <= 0 || p.n_parts <= 0 || p.n_parts > 65535 || p.ranges == nullptr ||
      p.parts == nullptr) {
    return cudaErrorInvalidValue;
  }
  constexpr size_t kShared = 2 * kWarpsMax * sizeof(uint64_t);
  return launch(checksum_kernel, dim3(static_cast<unsigned>(p.n_parts)), kThreads, kShared, stream,
                p, exponent_bits(p.dtype));
}

}  // namespace hs::cuda
