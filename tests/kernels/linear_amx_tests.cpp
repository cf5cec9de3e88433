// Proves the logic of the AMX kernel of linear layers against a model of its instructions; no AMX
// hardware takes part.
#define HS_ISA model_amx
#define HS_LANES 16
#define HS_INSTRUCTION_MODEL "kernels/bf16_model.h"

#include <boost/test/unit_test.hpp>

#include "kernels/linear_amx_cpu.cpp"
#include "kernels/linear_testing.h"

namespace hs {
namespace {

const test::Bf16Checks kChecks(isa_model_amx::linear_cpu);

}  // namespace

BOOST_AUTO_TEST_SUITE(linear_amx_tests)

BOOST_AUTO_TEST_CASE(sizes_need_not_be_multiples_of_anything) {
  kChecks.sizes();
}

BOOST_AUTO_TEST_CASE(many_rows_and_long_rows_are_cut_into_blocks) {
  kChecks.blocks();
}

BOOST_AUTO_TEST_CASE(strides_bias_residual_and_activations_hold_together) {
  kChecks.epilogues();
}

BOOST_AUTO_TEST_CASE(a_row_is_the_same_bit_by_bit_in_any_batch) {
  kChecks.rows_alone();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
