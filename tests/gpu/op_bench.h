// Matrices of random numbers on a device, and the time that calls on them take.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"
#include "gpu/check.h"

namespace hs::gpu {

class OpBench {
 public:
  OpBench(Device& device, const Sizes& sizes) : device_(device), sizes_(sizes) {}
  Ops& ops() { return device_.ops(); }

  // Random numbers within +-0.1; they are what a multiplier's power depends on. What does not fit
  // makes status() an error and everything later nothing.
  Matrix matrix(int64_t rows, int64_t cols, DType dtype);
  Matrix matrix(int64_t rows, int64_t cols) {
    return matrix(rows, cols, device_.activation_dtype());
  }
  PackedWeight weight(int64_t out_dim, int64_t in_dim) {
    const Matrix m = matrix(out_dim, in_dim);
    return {.dtype = m.dtype, .out_dim = out_dim, .in_dim = in_dim, .data = m.data};
  }
  template <typename T>
  const T* put(const std::vector<T>& values) {
    return static_cast<const T*>(put_bytes(std::as_bytes(std::span(values))));
  }
  void* take(size_t bytes);

  // Seconds of one call, the best of some rounds: what is in the way is always something else. `i`
  // counts calls.
  double seconds(const std::function<void(int64_t i)>& call);
  const Status& status() const { return status_; }

 private:
  const void* put_bytes(std::span<const std::byte> bytes);

  Device& device_;
  const Sizes& sizes_;
  std::vector<Buffer> buffers_;
  std::vector<uint16_t> noise_;
  Status status_;
};

// Seconds of one call of something that is complete when it returns.
Result<double> seconds_of(const Sizes& sizes, const std::function<Status()>& call);

}  // namespace hs::gpu
