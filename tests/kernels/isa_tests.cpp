// Proves that the level of the CPU kernels is what this machine has, and that it can be lowered.
#include <boost/test/unit_test.hpp>
#include <string>

#include "kernels/isa.h"

namespace hs {

BOOST_AUTO_TEST_SUITE(isa_tests)

BOOST_AUTO_TEST_CASE(level_is_no_more_than_the_compiler_sees_in_this_machine) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 =
      avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  const Isa isa = cpu_isa();
  BOOST_TEST((isa < Isa::kAvx2 || avx2));
  BOOST_TEST((isa < Isa::kAvx512 || avx512));
  BOOST_TEST((isa < Isa::kAvx512Bf16 || __builtin_cpu_supports("avx512bf16") != 0));
  // Unless someone lowered it, it is also no less.
  if (std::getenv("HETEROSERVE_CPU_ISA") == nullptr) {
    BOOST_TEST((isa >= Isa::kAvx2) == avx2);
    BOOST_TEST((isa >= Isa::kAvx512) == avx512);
  }
}

BOOST_AUTO_TEST_CASE(tests_can_lower_the_level_and_restore_it) {
  const Isa best = cpu_isa();
  set_cpu_isa_for_test(Isa::kBaseline);
  BOOST_TEST((cpu_isa() == Isa::kBaseline));
  set_cpu_isa_for_test(best);
  BOOST_TEST((cpu_isa() == best));
}

BOOST_AUTO_TEST_CASE(each_level_has_the_name_that_the_environment_takes) {
  BOOST_TEST(isa_name(Isa::kBaseline) == "baseline");
  BOOST_TEST(isa_name(Isa::kAvx2) == "avx2");
  BOOST_TEST(isa_name(Isa::kAvx512) == "avx512");
  BOOST_TEST(isa_name(Isa::kAvx512Bf16) == "avx512_bf16");
  BOOST_TEST(isa_name(Isa::kAmx) == "amx");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
