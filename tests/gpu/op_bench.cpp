#include "gpu/op_bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "model/weights.h"

namespace hs::gpu {
namespace {

constexpr int kRounds = 3;

double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

void* OpBench::take(size_t bytes) {
  if (!status_) return nullptr;
  auto made = device_.allocate(bytes);
  if (!made) {
    status_ = std::unexpected(made.error());
    return nullptr;
  }
  buffers_.push_back(std::move(*made));
  return buffers_.back().data();
}

const void* OpBench::put_bytes(std::span<const std::byte> bytes) {
  void* const to = take(bytes.size());
  if (to != nullptr) status_ = device_.write(bytes.data(), to, bytes.size());
  return to;
}

Matrix OpBench::matrix(int64_t rows, int64_t cols, DType dtype) {
  const size_t bytes = static_cast<size_t>(rows * cols) * dtype_bytes(dtype);
  Matrix m{take(bytes), dtype, rows, cols, cols};
  if (m.data == nullptr) return m;
  constexpr size_t kBlock = size_t{1} << 20;  // numbers that repeat
  if (noise_.empty()) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-0.1F, 0.1F);
    const auto round = rounding_to(device_.activation_dtype());
    noise_.resize(std::min(kBlock, std::max(size_t{4096}, sizes_.copy_bytes)));
    for (uint16_t& value : noise_) value = round(uniform(random));
  }
  // Of float32 these are the upper halves and lower halves of small numbers.
  for (size_t done = 0; done < bytes && status_;) {
    const size_t n = std::min(bytes - done, noise_.size() * sizeof(uint16_t));
    status_ = device_.write(noise_.data(), static_cast<std::byte*>(m.data) + done, n);
    done += n;
  }
  return m;
}

double OpBench::seconds(const std::function<void(int64_t i)>& call) {
  if (!status_) return 1;
  call(0);
  status_ = device_.sync();
  double best = std::numeric_limits<double>::infinity();
  int64_t n = 1;
  for (int round = 0; round < kRounds && status_;) {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < n; ++i) call(i);
    status_ = device_.sync();
    const double taken = since(begin);
    if (taken < sizes_.seconds / kRounds && n < sizes_.calls_max) {
      n = std::min(2 * n, sizes_.calls_max);
      continue;
    }
    best = std::min(best, taken / static_cast<double>(n));
    ++round;
  }
  return status_ ? best : 1;
}

Result<double> seconds_of(const Sizes& sizes, const std::function<Status()>& call) {
  if (Status first = call(); !first) return std::unexpected(first.error());
  const auto all = std::chrono::steady_clock::now();
  double best = std::numeric_limits<double>::infinity();
  for (int64_t n = 0; n < std::max<int64_t>(sizes.calls_max, 1); ++n) {
    const auto begin = std::chrono::steady_clock::now();
    if (Status done = call(); !done) return std::unexpected(done.error());
    best = std::min(best, since(begin));
    if (since(all) > sizes.seconds) break;
  }
  return best;
}

}  // namespace hs::gpu
