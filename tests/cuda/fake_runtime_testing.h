// Small kernels and owners for tests of the fake CUDA runtime.
#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "cuda_emu/fake_runtime.h"
#include "kernels/portable.cuh"

namespace hs::test {

using cuda_emu::FakeMachine;
using cuda_emu::MachineSpec;
using cuda_emu::Order;
using cuda_emu::Peer;

constexpr uint64_t kSeeds = 20;
constexpr int kCount = 256;  // ints in a buffer
constexpr size_t kBytes = kCount * sizeof(int);

inline MachineSpec two_tiers(uint64_t seed = 1, Order order = Order::kShuffled) {
  return {.devices = {cuda_emu::rtx_4090(size_t{4} << 20), cuda_emu::a100(size_t{8} << 20)},
          .seed = seed,
          .order = order};
}

// to[i] = from[i] + add
__global__ inline void add_kernel(const int* from, int* to, int add, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) to[i] = from[i] + add;
}

inline cudaError_t add(const int* from, int* to, int value, cudaStream_t stream) {
  return cuda::launch(add_kernel, dim3(kCount / 64), 64, 0, stream, from, to, value, kCount);
}

inline int* device_ints(int device) {
  void* p = nullptr;
  BOOST_REQUIRE(cudaSetDevice(device) == cudaSuccess);
  BOOST_REQUIRE(cudaMalloc(&p, kBytes) == cudaSuccess);
  return static_cast<int*>(p);
}

inline int* pinned_ints(int value) {
  void* p = nullptr;
  BOOST_REQUIRE(cudaMallocHost(&p, kBytes) == cudaSuccess);
  std::fill_n(static_cast<int*>(p), kCount, value);
  return static_cast<int*>(p);
}

inline cudaStream_t new_stream(int device) {
  cudaStream_t stream = nullptr;
  BOOST_REQUIRE(cudaSetDevice(device) == cudaSuccess);
  BOOST_REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return stream;
}

inline cudaEvent_t new_event(int device) {
  cudaEvent_t event = nullptr;
  BOOST_REQUIRE(cudaSetDevice(device) == cudaSuccess);
  BOOST_REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  return event;
}

inline bool all_are(const int* values, int wanted) {
  return std::all_of(values, values + kCount, [wanted](int v) { return v == wanted; });
}

// In how many of the seeds, each under its own machine, the run gives a wrong result (false).
template <typename Run>
uint64_t seeds_that_show(const Run& right, Order order = Order::kShuffled) {
  uint64_t shown = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    FakeMachine machine(two_tiers(seed, order));
    shown += !right(machine);
  }
  return shown;
}

inline bool any_says(const std::vector<std::string>& reports, const std::string& part) {
  for (const std::string& report : reports) {
    if (report.find(part) != std::string::npos) return true;
    BOOST_TEST_MESSAGE("a report says: " << report);
  }
  return false;
}

}  // namespace hs::test
