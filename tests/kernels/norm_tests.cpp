// Proves both norms against float64 loops: any width, strides, in place, rows far from zero.
#include "kernels/norm.h"
#include "kernels/op_testing.h"

namespace hs::test {
namespace {

constexpr int64_t kRows = 7;

struct Case {
  int64_t dim;
  float offset = 0;  // added to every x
  std::vector<float> x, weight, bias;
  explicit Case(int64_t d, float shift = 0) : dim(d), offset(shift) {
    const auto n = static_cast<size_t>(dim);
    x = random_floats(static_cast<size_t>(kRows) * (n + 3), 11);
    for (float& v : x) v += offset;
    weight = random_floats(n, 12);
    bias = random_floats(n, 13);
  }
  NormParams params(std::vector<float>& y) const {
    return {x.data(), weight.data(), bias.data(), y.data(), kRows, dim, dim + 3, dim + 1, 1e-5F};
  }
};

std::vector<double> reference(const Case& c, bool layer, bool with_bias) {
  std::vector<double> y;
  for (int64_t r = 0; r < kRows; ++r) {
    const float* x = c.x.data() + r * (c.dim + 3);
    double mean = 0;
    for (int64_t i = 0; i < c.dim && layer; ++i) mean += double{x[i]} / static_cast<double>(c.dim);
    double square = 0;
    for (int64_t i = 0; i < c.dim; ++i) square += (x[i] - mean) * (x[i] - mean);
    const double scale = 1 / std::sqrt(square / static_cast<double>(c.dim) + 1e-5);
    for (int64_t i = 0; i < c.dim; ++i) {
      const auto at = static_cast<size_t>(i);
      y.push_back((x[i] - mean) * scale * c.weight[at] + (layer && with_bias ? c.bias[at] : 0.0F));
    }
  }
  return y;
}

// Takes the rows out of y and checks that the gap after each row was left alone.
std::vector<float> rows_of(const std::vector<float>& y, int64_t dim) {
  std::vector<float> rows;
  for (int64_t r = 0; r < kRows; ++r) {
    const auto begin = y.begin() + r * (dim + 1);
    rows.insert(rows.end(), begin, begin + dim);
    BOOST_TEST(*(begin + dim) == 99.0F);
  }
  return rows;
}

constexpr int64_t kDims[] = {1, 3, 4, 8, 15, 16, 17, 64, 65, 100, 576, 4096};

}  // namespace

BOOST_AUTO_TEST_SUITE(norm_tests)

BOOST_AUTO_TEST_CASE(rms_norm_matches_float64_within_4e_6) {
  at_every_level([](Team& team) {
    for (int64_t dim : kDims) {
      const Case c(dim);
      std::vector<float> y(static_cast<size_t>(kRows * (dim + 1)), 99.0F);
      rms_norm_cpu(c.params(y), team);
      BOOST_TEST(distance(rows_of(y, dim), reference(c, false, false)) < 4e-6, "dim " << dim);
    }
  });
}

BOOST_AUTO_TEST_CASE(layer_norm_matches_float64_within_4e_6) {
  at_every_level([](Team& team) {
    for (int64_t dim : kDims) {
      if (dim == 1) continue;  // variance 0: see the constant row below
      const Case c(dim);
      std::vector<float> y(static_cast<size_t>(kRows * (dim + 1)), 99.0F);
      layer_norm_cpu(c.params(y), team);
      BOOST_TEST(distance(rows_of(y, dim), reference(c, true, true)) < 4e-6, "dim " << dim);
    }
  });
}

BOOST_AUTO_TEST_CASE(layer_norm_without_bias_adds_none) {
  at_every_level([](Team& team) {
    const Case c(77);
    std::vector<float> y(static_cast<size_t>(kRows * 78), 99.0F);
    NormParams p = c.params(y);
    p.bias = nullptr;
    layer_norm_cpu(p, team);
    BOOST_TEST(distance(rows_of(y, 77), reference(c, true, false)) < 4e-6);
  });
}

BOOST_AUTO_TEST_CASE(layer_norm_keeps_precision_for_rows_far_from_zero) {
  at_every_level([](Team& team) {
    const Case c(1024, 100);
    std::vector<float> y(static_cast<size_t>(kRows * 1025), 99.0F);
    layer_norm_cpu(c.params(y), team);
    // Inputs near 100 carry 4e-6 of rounding each in x - mean.
    BOOST_TEST(distance(rows_of(y, 1024), reference(c, true, true)) < 1e-4);
  });
}

BOOST_AUTO_TEST_CASE(constant_rows_give_the_bias_and_not_infinity) {
  at_every_level([](Team& team) {
    const std::vector<float> x(33, 5.0F), weight(33, 1.0F), bias(33, 0.25F);
    std::vector<float> y(33);
    layer_norm_cpu({x.data(), weight.data(), bias.data(), y.data(), 1, 33, 33, 33, 1e-5F}, team);
    for (float v : y) BOOST_TEST(v == 0.25F);
  });
}

BOOST_AUTO_TEST_CASE(in_place_gives_the_same_bits) {
  at_every_level([](Team& team) {
    for (auto* op : {rms_norm_cpu, layer_norm_cpu}) {
      const std::vector<float> x = random_floats(5 * 130, 3), weight = random_floats(130, 4);
      std::vector<float> apart(x.size()), same = x;
      op({x.data(), weight.data(), nullptr, apart.data(), 5, 130, 130, 130, 1e-6F}, team);
      op({same.data(), weight.data(), nullptr, same.data(), 5, 130, 130, 130, 1e-6F}, team);
      BOOST_TEST(apart == same);
    }
  });
}

BOOST_AUTO_TEST_CASE(no_rows_is_no_work) {
  at_every_level([](Team& team) {
    rms_norm_cpu({nullptr, nullptr, nullptr, nullptr, 0, 64, 64, 64, 1e-5F}, team);
    layer_norm_cpu({nullptr, nullptr, nullptr, nullptr, 0, 64, 64, 64, 1e-5F}, team);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
