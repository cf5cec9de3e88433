// Proves the logic of the AVX512-BF16 kernel of linear layers against a model of its instruction;
// no such hardware takes part.
#define HS_ISA model_avx512bf16
#define HS_LANES 16
#define HS_INSTRUCTION_MODEL "kernels/bf16_model.h"

#include <boost/test/unit_test.hpp>

#include "kernels/linear_avx512bf16_cpu.cpp"
#include "kernels/linear_testing.h"
#include "kernels/op_testing.h"

namespace hs {
namespace {

using test::LinearCase;
using test::PlainTeam;

void check(const LinearCase& given, Team& team) {
  LinearCase c = given;
  c.x_is_rounded = true;
  test::check_linear(isa_model_avx512bf16::linear_cpu, c, DType::kBF16, team);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(linear_avx512bf16_tests)

BOOST_AUTO_TEST_CASE(sizes_need_not_be_multiples_of_anything) {
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

BOOST_AUTO_TEST_CASE(many_rows_and_long_rows_are_cut_into_blocks) {
  PlainTeam team(2);
  check({.n_rows = 303, .in_dim = 100, .out_dim = 40}, team);
  check({.n_rows = 9, .in_dim = 2050, .out_dim = 83}, team);
  check({.n_rows = 21, .in_dim = 70, .out_dim = 900}, team);
}

BOOST_AUTO_TEST_CASE(strides_bias_residual_and_activations_hold_together) {
  PlainTeam team(2);
  for (Epilogue epilogue : test::kEpilogues) {
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

BOOST_AUTO_TEST_CASE(a_row_is_the_same_bit_by_bit_in_any_batch) {
  PlainTeam team(2);
  test::check_rows_alone(isa_model_avx512bf16::linear_cpu, DType::kBF16, 301, 67, team);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
