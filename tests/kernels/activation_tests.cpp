// Proves silu(gate) * up against a float64 loop, from large negative to large positive gates.
#include "kernels/activation.h"
#include "kernels/op_testing.h"

namespace hs::test {

BOOST_AUTO_TEST_SUITE(activation_tests)

BOOST_AUTO_TEST_CASE(silu_mul_matches_float64_within_1e_6_relative) {
  at_every_level([](Team& team) {
    for (int64_t dim : {1, 5, 8, 16, 31, 100, 1536}) {
      const int64_t rows = 9;
      const auto x = random_floats(static_cast<size_t>(rows * 2 * dim), 21, -30, 30);
      std::vector<float> y(static_cast<size_t>(rows * dim));
      silu_mul_cpu({x.data(), y.data(), rows, dim}, team);
      double worst = 0;
      for (int64_t i = 0; i < rows * dim; ++i) {
        const double gate = x[static_cast<size_t>(i / dim * 2 * dim + i % dim)];
        const double up = x[static_cast<size_t>(i / dim * 2 * dim + dim + i % dim)];
        const double want = gate / (1 + std::exp(-gate)) * up;
        const double got = y[static_cast<size_t>(i)];
        worst = std::max(worst, std::abs(got - want) / std::max(std::abs(want), 1e-30));
      }
      BOOST_TEST(worst < 1e-6, "dim " << dim);
    }
  });
}

BOOST_AUTO_TEST_CASE(extreme_gates_stay_finite_and_nan_stays_nan) {
  at_every_level([](Team& team) {
    const std::vector<float> x = {-1000, 1000, -88.5F, 0, NAN, 1, 1, 1, 1, 1};
    std::vector<float> y(5);
    silu_mul_cpu({x.data(), y.data(), 1, 5}, team);
    BOOST_TEST(std::abs(y[0]) < 1e-30F);
    BOOST_TEST(y[1] == 1000.0F);
    BOOST_TEST(std::abs(y[2]) < 1e-30F);
    BOOST_TEST(y[3] == 0.0F);
    BOOST_TEST(std::isnan(y[4]));
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
