// What the tests of all linear kernels share: packed random weights, a float64 reference, and the
// comparison of each row with the row computed alone.
#pragma once

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/linear.h"
#include "kernels/op_testing.h"

namespace hs::test {

// A packed weight with the memory it lives in, and its values as stored.
struct Packed {
  PackedWeight weight;
  std::vector<float> values;  // (out_dim, in_dim)
  std::vector<std::byte> memory;

  Packed(DType dtype, int64_t out_dim, int64_t in_dim, uint32_t seed) {
    const auto n = static_cast<size_t>(out_dim * in_dim);
    values = random_floats(n, seed, -1, 1);
    if (dtype == DType::kBF16) {
      for (float& v : values) v = from_bf16(to_bf16(v));
    }
    memory.resize(packed_weight_bytes(dtype, out_dim, in_dim) + 64);
    const auto start = reinterpret_cast<uintptr_t>(memory.data());
    std::byte* data = memory.data() + (64 - start % 64) % 64;
    PlainTeam team(1);
    pack_weight_rows_cpu(data, dtype, out_dim, in_dim, 0, out_dim, values.data(), DType::kF32,
                         team);
    weight = {.dtype = dtype, .out_dim = out_dim, .in_dim = in_dim, .data = data};
  }
};

inline double activate(double x, Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return x;
    case Epilogue::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Epilogue::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Epilogue::kQuickGelu:
      return x / (1 + std::exp(-1.702 * x));
    case Epilogue::kSilu:
      return x / (1 + std::exp(-x));
    case Epilogue::kRelu:
      return x < 0 ? 0 : x;
  }
  return x;
}

inline constexpr std::array kEpilogues{Epilogue::kNone,     Epilogue::kGeluErf,
                                       Epilogue::kGeluTanh, Epilogue::kQuickGelu,
                                       Epilogue::kSilu,     Epilogue::kRelu};

struct LinearCase {
  int64_t n_rows, in_dim, out_dim;
  int64_t x_gap = 0, y_gap = 0;  // strides beyond the row
  Epilogue epilogue = Epilogue::kNone;
  bool bias = true;
  bool accumulate = false;
  bool x_is_rounded = false;  // the kernel rounds x to bf16
};

using LinearKernel = void (*)(const LinearParams&, Team&);

// Every output against float64, and the gaps between rows untouched. The tolerance is that of a
// float32 chain: each of in_dim steps may round by half a unit of the running sum, whose size is
// bounded by sum |x w|.
inline void check_linear(LinearKernel kernel, const LinearCase& c, DType dtype, Team& team) {
  const Packed packed(dtype, c.out_dim, c.in_dim, 7);
  const int64_t x_stride = c.in_dim + c.x_gap;
  const int64_t y_stride = c.out_dim + c.y_gap;
  const auto x = random_floats(static_cast<size_t>(c.n_rows * x_stride), 8, -1, 1);
  const auto bias = random_floats(static_cast<size_t>(c.out_dim), 9);
  const auto before = random_floats(static_cast<size_t>(c.n_rows * y_stride), 10);
  auto y = before;
  kernel({.x = x.data(),
          .weight = packed.weight,
          .bias = c.bias ? bias.data() : nullptr,
          .y = y.data(),
          .n_rows = c.n_rows,
          .x_stride = x_stride,
          .y_stride = y_stride,
          .epilogue = c.epilogue,
          .accumulate = c.accumulate},
         team);
  double worst = 0;  // in units of the tolerance
  size_t gaps_touched = 0;
  for (int64_t row = 0; row < c.n_rows; ++row) {
    for (int64_t col = 0; col < y_stride; ++col) {
      const auto at = static_cast<size_t>(row * y_stride + col);
      if (col >= c.out_dim) {
        gaps_touched += y[at] != before[at];
        continue;
      }
      double sum = 0;
      double size = 0;
      for (int64_t k = 0; k < c.in_dim; ++k) {
        float x_value = x[static_cast<size_t>(row * x_stride + k)];
        if (c.x_is_rounded) x_value = from_bf16(to_bf16(x_value));
        const double product =
            double{x_value} * double{packed.values[static_cast<size_t>(col * c.in_dim + k)]};
        sum += product;
        size += std::abs(product);
      }
      if (c.bias) sum += double{bias[static_cast<size_t>(col)]};
      double expected = activate(sum, c.epilogue);
      if (c.accumulate) expected += double{before[at]};
      const double tolerance =
          1.2e-7 * std::sqrt(static_cast<double>(c.in_dim)) * (size + 4) + 1e-6;
      const double error = std::abs(double{y[at]} - expected);
      worst = std::isfinite(error) ? std::max(worst, error / tolerance) : HUGE_VAL;
    }
  }
  BOOST_TEST_CONTEXT("rows " << c.n_rows << ", in " << c.in_dim << ", out " << c.out_dim << ", "
                             << std::string(dtype_name(dtype))) {
    BOOST_TEST(worst <= 1.0);
    BOOST_TEST(gaps_touched == 0U);
  }
}

// Batches of 1 to 40 rows against each row alone, bit by bit.
inline void check_rows_alone(LinearKernel kernel, DType dtype, int64_t in_dim, int64_t out_dim,
                             Team& team) {
  constexpr int64_t kRows = 40;
  const Packed packed(dtype, out_dim, in_dim, 3);
  const auto x = random_floats(static_cast<size_t>(kRows * in_dim), 4);
  const auto bias = random_floats(static_cast<size_t>(out_dim), 5);
  LinearParams params{.x = x.data(),
                      .weight = packed.weight,
                      .bias = bias.data(),
                      .x_stride = in_dim,
                      .y_stride = out_dim,
                      .epilogue = Epilogue::kGeluErf};
  std::vector<float> alone(static_cast<size_t>(kRows * out_dim));
  for (int64_t row = 0; row < kRows; ++row) {
    params.x = x.data() + row * in_dim;
    params.y = alone.data() + row * out_dim;
    params.n_rows = 1;
    kernel(params, team);
  }
  params.x = x.data();
  for (int64_t n_rows = 1; n_rows <= kRows; ++n_rows) {
    std::vector<float> y(static_cast<size_t>(n_rows * out_dim));
    params.y = y.data();
    params.n_rows = n_rows;
    kernel(params, team);
    BOOST_TEST(std::memcmp(y.data(), alone.data(), y.size() * sizeof(float)) == 0,
               "batch of " << n_rows << ", " << std::string(dtype_name(dtype)));
  }
}

// The kernels that round x to bf16, at sizes that meet every edge of their tiles and blocks.
class Bf16Checks {
 public:
  explicit Bf16Checks(LinearKernel kernel) : kernel_(kernel) {}

  void sizes() const {
    for (int workers : {1, 3}) {
      PlainTeam team(workers);
      for (int64_t n_rows : {1, 2, 7, 16, 17, 33, 50}) {
        for (const auto& [in_dim, out_dim] :
             {std::pair<int64_t, int64_t>{1, 1}, {31, 16}, {65, 33}, {131, 70}}) {
          check({.n_rows = n_rows, .in_dim = in_dim, .out_dim = out_dim}, team);
        }
      }
    }
  }
  void blocks() const {
    PlainTeam team(2);
    check({.n_rows = 303, .in_dim = 100, .out_dim = 40}, team);
    check({.n_rows = 9, .in_dim = 2050, .out_dim = 83}, team);
    check({.n_rows = 21, .in_dim = 70, .out_dim = 900}, team);
  }
  void epilogues() const {
    PlainTeam team(2);
    for (Epilogue epilogue : kEpilogues) {
      check({.n_rows = 19,
             .in_dim = 45,
             .out_dim = 37,
             .x_gap = 3,
             .y_gap = 5,
             .epilogue = epilogue,
             .accumulate = true},
            team);
    }
  }
  void rows_alone() const {
    PlainTeam team(2);
    check_rows_alone(kernel_, DType::kBF16, 301, 67, team);
  }

 private:
  void check(LinearCase c, Team& team) const {
    c.x_is_rounded = true;
    check_linear(kernel_, c, DType::kBF16, team);
  }

  LinearKernel kernel_;
};

}  // namespace hs::test
