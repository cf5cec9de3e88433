// What every test of a CUDA kernel needs: values rounded as the kernel stores them, all schedules
// of the emulator, comparison with float64. The same tests run on a real GPU (tests/gpu/run.sh),
// which has one schedule, its own.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "cuda_emu/half.h"
#include "kernels/op_testing.h"
#if defined(HS_CUDA_EMU)
#include "cuda_emu/emulator.h"
#include "cuda_emu/memory.h"
#else
#include "gpu/managed_memory.h"
#endif

namespace hs::test {

constexpr uint64_t kScheduleSeed = 20261130;

#if defined(HS_CUDA_EMU)
using cuda_emu::DeviceArray;

// Runs the check under each schedule of the emulator.
template <typename Check>
void under_every_schedule(const Check& check) {
  using cuda_emu::Schedule;
  for (const auto& [schedule, name] : {std::pair{Schedule::kAscending, "ascending"},
                                       std::pair{Schedule::kDescending, "descending"},
                                       std::pair{Schedule::kShuffled, "shuffled"}}) {
    BOOST_TEST_CONTEXT("schedule " << name << ", seed " << kScheduleSeed) {
      cuda_emu::set_schedule(schedule, kScheduleSeed);
      check();
    }
  }
  cuda_emu::set_schedule(Schedule::kAscending);
}
#else
using gpu::DeviceArray;

template <typename Check>
void under_every_schedule(const Check& check) {
  check();
}
#endif

// Floats in device memory, stored as a dtype.
class Values {
 public:
  Values(DType dtype, size_t n) : dtype_(dtype), bytes_(n * dtype_bytes(dtype)), n_(n) {}
  Values(DType dtype, const std::vector<float>& values) : Values(dtype, values.size()) {
    for (size_t i = 0; i < n_; ++i) set(i, values[i]);
  }
  void* data() const { return bytes_.data(); }
  size_t size() const { return n_; }
  void set(size_t i, float v) {
    if (dtype_ == DType::kF32) {
      reinterpret_cast<float*>(bytes_.data())[i] = v;
    } else {
      reinterpret_cast<uint16_t*>(bytes_.data())[i] =
          dtype_ == DType::kF16 ? cuda_emu::float_to_f16(v) : cuda_emu::float_to_bf16(v);
    }
  }
  float get(size_t i) const {
    if (dtype_ == DType::kF32) return reinterpret_cast<const float*>(bytes_.data())[i];
    const uint16_t bits = reinterpret_cast<const uint16_t*>(bytes_.data())[i];
    return dtype_ == DType::kF16 ? cuda_emu::f16_to_float(bits) : cuda_emu::bf16_to_float(bits);
  }
  std::vector<float> get() const {
    std::vector<float> values(n_);
    for (size_t i = 0; i < n_; ++i) values[i] = get(i);
    return values;
  }
  bool intact() const { return bytes_.intact(); }

 private:
  DType dtype_;
  DeviceArray<unsigned char> bytes_;
  size_t n_;
};

// Half a unit in the last place of a value of this size: what one rounding to dtype may cost.
inline double rounding(DType dtype, double value) {
  const double size = std::abs(value);
  switch (dtype) {
    case DType::kF16:
      return std::max(size * 0x1p-11, 0x1p-25);
    case DType::kBF16:
      return size * 0x1p-8;
    default:
      return size * 0x1p-24;
  }
}

// The largest share of its allowance (tolerance plus one rounding) that any result uses; at most 1
// is right, infinity if anything is not finite.
inline double error_share(DType dtype, const std::vector<float>& got,
                          const std::vector<double>& wanted, double tolerance) {
  BOOST_REQUIRE_EQUAL(got.size(), wanted.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(double{got[i]} - wanted[i]);
    if (!(off < HUGE_VAL)) return HUGE_VAL;
    worst = std::max(worst, off / (tolerance + rounding(dtype, wanted[i])));
  }
  return worst;
}

constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
constexpr DType kHalfDTypes[] = {DType::kF16, DType::kBF16};

}  // namespace hs::test
