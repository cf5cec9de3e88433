// Proves the logic of linear layers at the width of AVX-512 on any machine: the compiler splits the
// vectors.
#define HS_ISA model_avx512
#define HS_LANES 16

#include <boost/test/unit_test.hpp>

#include "kernels/linear_cpu.cpp"
#include "kernels/linear_testing.h"
#include "kernels/op_testing.h"

namespace hs {
namespace {

using test::LinearCase;
using test::PlainTeam;

constexpr auto kKernel = isa_model_avx512::linear_cpu;

}  // namespace

BOOST_AUTO_TEST_SUITE(linear_avx512_tests)

BOOST_AUTO_TEST_CASE(sizes_need_not_be_multiples_of_anything) {
  static_assert(isa_model_avx512::kLanes == 16);
  PlainTeam team(2);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int64_t n_rows : {1, 2, 3, 4, 5, 6, 7, 13, 40}) {
      for (const auto& [in_dim, out_dim] :
           {std::pair<int64_t, int64_t>{1, 1}, {3, 17}, {64, 33}, {131, 150}}) {
        test::check_linear(kKernel, {.n_rows = n_rows, .in_dim = in_dim, .out_dim = out_dim}, dtype,
                           team);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(many_rows_and_long_rows_are_cut_into_blocks) {
  PlainTeam team(2);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    test::check_linear(kKernel, {.n_rows = 203, .in_dim = 517, .out_dim = 83}, dtype, team);
    test::check_linear(kKernel, {.n_rows = 9, .in_dim = 1050, .out_dim = 300}, dtype, team);
  }
}

BOOST_AUTO_TEST_CASE(strides_bias_residual_and_activations_hold_together) {
  PlainTeam team(2);
  for (Epilogue epilogue : test::kEpilogues) {
    test::check_linear(kKernel,
                       {.n_rows = 19,
                        .in_dim = 45,
                        .out_dim = 37,
                        .x_gap = 3,
                        .y_gap = 5,
                        .epilogue = epilogue,
                        .accumulate = true},
                       DType::kF32, team);
  }
}

BOOST_AUTO_TEST_CASE(a_row_is_the_same_bit_by_bit_in_any_batch) {
  PlainTeam team(2);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    test::check_rows_alone(kKernel, dtype, 301, 150, team);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
