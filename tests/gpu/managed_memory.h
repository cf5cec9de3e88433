// Memory that a GPU's kernels and the host both reach, for the kernels' tests on a real GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"

namespace hs::gpu {

// An array with guards on both sides, poisoned at first. Each look at it waits for the device, so
// that a test reads what kernels wrote.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : n_(n) {
    HS_CHECK(cudaMallocManaged(&memory_, bytes() + 2 * kGuard) == cudaSuccess);
    std::memset(memory_, kPoison, bytes() + 2 * kGuard);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    if (n_ > 0) std::memcpy(data(), values.data(), bytes());
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  DeviceArray(DeviceArray&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), n_(other.n_) {}
  DeviceArray& operator=(DeviceArray&&) = delete;
  ~DeviceArray() { cudaFree(memory_); }

  T* data() const {
    cudaDeviceSynchronize();
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory_) + kGuard);
  }
  size_t size() const { return n_; }
  std::vector<T> get() const {
    std::vector<T> values(n_);
    if (n_ > 0) std::memcpy(values.data(), data(), bytes());
    return values;
  }
  // Whether nobody wrote beside the array.
  bool intact() const {
    const auto* const begin = reinterpret_cast<const unsigned char*>(data()) - kGuard;
    const auto is_poison = [](unsigned char byte) { return byte == kPoison; };
    return std::all_of(begin, begin + kGuard, is_poison) &&
           std::all_of(begin + kGuard + bytes(), begin + 2 * kGuard + bytes(), is_poison);
  }

 private:
  static constexpr size_t kGuard = 4096;
  static constexpr unsigned char kPoison = 0xFF;  // NaN in every floating-point format
  size_t bytes() const { return n_ * sizeof(T); }

  void* memory_ = nullptr;
  size_t n_;
};

}  // namespace hs::gpu
