// Proves linear layers against a float64 loop at every instruction set, and that a row does not
// depend on its batch.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>

#include "kernels/linear.h"
#include "kernels/linear_testing.h"
#include "kernels/op_testing.h"
#include "kernels/weight_layout.h"

namespace hs {
namespace {

using test::activate;
using test::at_every_level;
using test::from_bf16;
using test::kEpilogues;
using test::Packed;
using test::PlainTeam;
using test::random_floats;
using test::to_bf16;

}  // namespace

BOOST_AUTO_TEST_SUITE(linear_tests)

BOOST_AUTO_TEST_CASE(sizes_need_not_be_multiples_of_anything) {
  at_every_level([](Team& team) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      for (int64_t n_rows : {1, 2, 3, 4, 5, 6, 7, 13, 40}) {
        for (const auto& [in_dim, out_dim] :
             {std::pair<int64_t, int64_t>{1, 1}, {3, 17}, {64, 33}, {131, 70}}) {
          test::check_linear(linear_cpu, {.n_rows = n_rows, .in_dim = in_dim, .out_dim = out_dim},
                             dtype, team);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(many_rows_and_long_rows_are_cut_into_blocks) {
  at_every_level([](Team& team) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      test::check_linear(linear_cpu, {.n_rows = 203, .in_dim = 1027, .out_dim = 83}, dtype, team);
      test::check_linear(linear_cpu, {.n_rows = 9, .in_dim = 2050, .out_dim = 300}, dtype, team);
    }
  });
}

BOOST_AUTO_TEST_CASE(strides_bias_residual_and_activations_hold_together) {
  at_every_level([](Team& team) {
    for (Epilogue epilogue : kEpilogues) {
      for (int64_t n_rows : {1, 5, 19}) {
        for (bool bias : {false, true}) {
          test::check_linear(linear_cpu,
                             {.n_rows = n_rows,
                              .in_dim = 45,
                              .out_dim = 37,
                              .x_gap = 3,
                              .y_gap = 5,
                              .epilogue = epilogue,
                              .bias = bias,
                              .accumulate = !bias},
                             DType::kF32, team);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_row_is_the_same_bit_by_bit_in_any_batch) {
  at_every_level([](Team& team) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      test::check_rows_alone(linear_cpu, dtype, 601, 83, team);
    }
  });
}

BOOST_AUTO_TEST_CASE(activations_hold_over_their_whole_range) {
  // in_dim 1 with weight 1 passes x through, so this looks at the activation alone.
  constexpr int64_t kRows = 4001;
  const float one = 1;
  PlainTeam packer(1);
  alignas(64) std::array<std::byte, 64> memory{};
  pack_weight_rows_cpu(memory.data(), DType::kF32, 1, 1, 0, 1, &one, DType::kF32, packer);
  std::vector<float> x(kRows);
  for (size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<float>(i) - 2000) * 0.02F;
  at_every_level([&](Team& team) {
    for (Epilogue epilogue : kEpilogues) {
      std::vector<float> y(x.size());
      linear_cpu({.x = x.data(),
                  .weight = {.out_dim = 1, .in_dim = 1, .data = memory.data()},
                  .y = y.data(),
                  .n_rows = kRows,
                  .x_stride = 1,
                  .y_stride = 1,
                  .epilogue = epilogue},
                 team);
      double worst = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double error = std::abs(double{y[i]} - activate(double{x[i]}, epilogue));
        worst = std::max(worst, error / (1 + std::abs(double{x[i]})));
      }
      BOOST_TEST(worst < 4e-7, "activation " << static_cast<int>(epilogue) << ": " << worst);
    }
  });
}

BOOST_AUTO_TEST_CASE(rows_packed_in_any_pieces_are_where_the_layout_says) {
  constexpr int64_t kOut = 45, kIn = 37;
  const auto values = random_floats(kOut * kIn, 11, -3, 3);
  std::vector<uint16_t> halves(values.size());
  PlainTeam team(2);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const WeightLayout layout{dtype, kOut, kIn};
    for (DType source : {DType::kF32, DType::kBF16}) {
      for (size_t i = 0; i < values.size(); ++i) halves[i] = to_bf16(values[i]);
      const void* data = source == DType::kF32 ? static_cast<const void*>(values.data())
                                               : static_cast<const void*>(halves.data());
      std::vector<std::byte> packed(packed_weight_bytes(dtype, kOut, kIn));
      const std::array<int64_t, 6> cuts{0, 5, 16, 17, 40, kOut};
      for (size_t piece = 0; piece + 1 < cuts.size(); ++piece) {
        const int64_t first = cuts[piece];
        pack_weight_rows_cpu(packed.data(), dtype, kOut, kIn, first, cuts[piece + 1] - first,
                             static_cast<const std::byte*>(data) +
                                 static_cast<size_t>(first * kIn) * dtype_bytes(source),
                             source, team);
      }
      size_t wrong = 0;
      double total = 0;
      for (int64_t row = 0; row < kOut; ++row) {
        for (int64_t k = 0; k < kIn; ++k) {
          const auto from = static_cast<size_t>(row * kIn + k);
          const auto at = static_cast<size_t>(layout.index(row, k));
          const bool exact = source == DType::kF32 && dtype == DType::kF32;
          const float expected = exact ? values[from] : from_bf16(halves[from]);
          float stored = 0;
          if (dtype == DType::kF32) {
            std::memcpy(&stored, packed.data() + at * 4, 4);
          } else {
            uint16_t half = 0;
            std::memcpy(&half, packed.data() + at * 2, 2);
            stored = from_bf16(half);
          }
          wrong += stored != expected;
          total += std::abs(double{stored});
        }
      }
      BOOST_TEST(wrong == 0U);
      // Nothing was written to the padding.
      double everything = 0;
      for (size_t i = 0; i < packed.size(); i += dtype_bytes(dtype)) {
        uint32_t bits = 0;
        std::memcpy(&bits, packed.data() + i, dtype_bytes(dtype));
        everything +=
            std::abs(double{std::bit_cast<float>(dtype == DType::kF32 ? bits : bits << 16)});
      }
      BOOST_TEST(everything == total, boost::test_tools::tolerance(1e-12));
    }
  }
}

BOOST_AUTO_TEST_CASE(half_precision_sources_convert_exactly) {
  // Every float16, subnormals, infinities and NaN included, as one weight row of 65536.
  constexpr int64_t kIn = 65536;
  std::vector<uint16_t> halves(kIn);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  PlainTeam team(1);
  std::vector<std::byte> packed(packed_weight_bytes(DType::kF32, 1, kIn));
  pack_weight_rows_cpu(packed.data(), DType::kF32, 1, kIn, 0, 1, halves.data(), DType::kF16, team);
  size_t wrong = 0;
  for (int64_t k = 0; k < kIn; ++k) {
    float stored = 0;
    std::memcpy(
        &stored,
        packed.data() + static_cast<size_t>(WeightLayout{DType::kF32, 1, kIn}.index(0, k)) * 4, 4);
    const int exponent = static_cast<int>(k >> 10 & 31);
    const double mantissa = static_cast<double>(k & 1023);
    double size =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) size = mantissa == 0 ? HUGE_VAL : NAN;
    const double expected = (k & 0x8000) != 0 ? -size : size;
    wrong += std::isnan(expected)
                 ? !std::isnan(stored)
                 : double{stored} != expected || std::signbit(stored) != std::signbit(expected);
  }
  BOOST_TEST(wrong == 0U);
}

BOOST_AUTO_TEST_CASE(no_rows_is_nothing_to_do) {
  PlainTeam team(1);
  const Packed packed(DType::kF32, 5, 5, 1);
  linear_cpu({.weight = packed.weight, .n_rows = 0, .x_stride = 5, .y_stride = 5}, team);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
