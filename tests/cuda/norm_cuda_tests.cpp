// Proves both norms on the emulated GPU against float64: widths, strides, dtypes, in place, far
// from zero.
#include "cuda/cuda_testing.h"
#include "kernels/norm_cuda.h"

namespace hs::test {
namespace {

constexpr int64_t kRows = 3;
constexpr float kUntouched = 96;  // exact in every dtype

struct Case {
  DType dtype;
  int64_t dim, gap;  // gap: elements between rows
  Values x, y;
  DeviceArray<float> weight, bias;

  Case(DType type, int64_t d, int64_t space, float shift = 0)
      : dtype(type),
        dim(d),
        gap(space),
        x(type, shifted(size(), 11, shift)),
        y(type, std::vector<float>(size(), kUntouched)),
        weight(random_floats(static_cast<size_t>(d), 12)),
        bias(random_floats(static_cast<size_t>(d), 13)) {}
  size_t size() const { return static_cast<size_t>(kRows * (dim + gap)); }
  static std::vector<float> shifted(size_t n, uint32_t seed, float shift) {
    auto values = random_floats(n, seed);
    for (float& v : values) v += shift;
    return values;
  }
  cuda::NormParams params() const {
    return {.dtype = dtype,
            .x = x.data(),
            .weight = weight.data(),
            .bias = bias.data(),
            .y = y.data(),
            .n_rows = kRows,
            .dim = dim,
            .x_stride = dim + gap,
            .y_stride = dim + gap,
            .eps = 1e-5F};
  }
};

std::vector<double> reference(const Case& c, const std::vector<float>& x, bool layer, bool bias) {
  std::vector<double> y;
  for (int64_t r = 0; r < kRows; ++r) {
    const float* row = x.data() + r * (c.dim + c.gap);
    const auto n = static_cast<double>(c.dim);
    double mean = 0, square = 0;
    for (int64_t i = 0; i < c.dim && layer; ++i) mean += double{row[i]} / n;
    for (int64_t i = 0; i < c.dim; ++i) square += (row[i] - mean) * (row[i] - mean);
    const double scale = 1 / std::sqrt(square / n + 1e-5);
    for (int64_t i = 0; i < c.dim; ++i) {
      const double shift = layer && bias ? double{c.bias.data()[i]} : 0.0;
      y.push_back((row[i] - mean) * scale * c.weight.data()[i] + shift);
    }
  }
  return y;
}

// The rows of y; the gaps between them must be as they were.
std::vector<float> rows_of(const Case& c, const std::vector<float>& all) {
  std::vector<float> rows;
  for (int64_t r = 0; r < kRows; ++r) {
    const auto begin = all.begin() + r * (c.dim + c.gap);
    rows.insert(rows.end(), begin, begin + c.dim);
    for (int64_t i = c.dim; i < c.dim + c.gap; ++i) BOOST_TEST(*(begin + i) == kUntouched);
  }
  return rows;
}

constexpr int64_t kDims[] = {1, 3, 8, 33, 100, 576, 1025, 1280};

}  // namespace

BOOST_AUTO_TEST_SUITE(norm_cuda_tests)

BOOST_AUTO_TEST_CASE(both_norms_match_float64_at_every_width_and_dtype) {
  under_every_schedule([] {
    for (const DType dtype : kDTypes) {
      for (const int64_t dim : kDims) {
        for (const bool layer : {false, true}) {
          if (layer && dim == 1) continue;  // variance 0: see the constant row below
          const Case c(dtype, dim, dim % 8 == 0 ? 8 : 1);
          const auto op = layer ? cuda::layer_norm : cuda::rms_norm;
          BOOST_TEST(op(c.params(), nullptr) == cudaSuccess);
          const auto wanted = reference(c, c.x.get(), layer, true);
          BOOST_TEST(error_share(dtype, rows_of(c, c.y.get()), wanted, 4e-6) <= 1,
                     "dim " << dim << " " << dtype_name(dtype) << (layer ? " layer" : " rms"));
          BOOST_TEST(c.y.intact());
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(widths_of_many_accesses_a_thread_match_float64) {
  for (const auto& [dtype, dim] : {std::pair{DType::kBF16, 16384}, std::pair{DType::kF16, 12288},
                                   std::pair{DType::kF32, 16384}, std::pair{DType::kBF16, 4095}}) {
    const Case c(dtype, dim, 0);
    BOOST_TEST(cuda::rms_norm(c.params(), nullptr) == cudaSuccess);
    const auto wanted = reference(c, c.x.get(), false, false);
    BOOST_TEST(error_share(dtype, c.y.get(), wanted, 4e-6) <= 1, "dim " << dim);
  }
}

BOOST_AUTO_TEST_CASE(layer_norm_keeps_precision_for_rows_far_from_zero) {
  const Case c(DType::kF32, 1024, 0, 100);
  auto p = c.params();
  p.bias = nullptr;
  BOOST_TEST(cuda::layer_norm(p, nullptr) == cudaSuccess);
  // Inputs near 100 carry 4e-6 of rounding each in x - mean.
  const auto wanted = reference(c, c.x.get(), true, false);
  BOOST_TEST(error_share(DType::kF32, c.y.get(), wanted, 1e-4) <= 1);
}

BOOST_AUTO_TEST_CASE(constant_rows_give_the_bias_and_not_infinity) {
  const DeviceArray<float> weight(std::vector<float>(40, 1.0F)),
      bias(std::vector<float>(40, 0.25F));
  const Values x(DType::kBF16, std::vector<float>(40, 5.0F)), y(DType::kBF16, 40);
  BOOST_TEST(cuda::layer_norm({.x = x.data(),
                               .weight = weight.data(),
                               .bias = bias.data(),
                               .y = y.data(),
                               .n_rows = 1,
                               .dim = 40,
                               .x_stride = 40,
                               .y_stride = 40,
                               .eps = 1e-5F},
                              nullptr) == cudaSuccess);
  for (const float v : y.get()) BOOST_TEST(v == 0.25F);
}

BOOST_AUTO_TEST_CASE(a_rows_result_is_the_same_in_every_schedule_batch_and_in_place) {
  std::vector<float> first;
  under_every_schedule([&] {
    const Case c(DType::kF32, 520, 0);
    auto p = c.params();
    p.y = c.x.data();
    BOOST_TEST(cuda::rms_norm(p, nullptr) == cudaSuccess);
    if (first.empty()) first = c.x.get();
    BOOST_TEST(c.x.get() == first);
    const Case alone(DType::kF32, 520, 0);
    p = alone.params();
    p.n_rows = 1;
    p.x = static_cast<const float*>(p.x) + 520;
    BOOST_TEST(cuda::rms_norm(p, nullptr) == cudaSuccess);
    const auto y = alone.y.get();
    BOOST_TEST((std::vector<float>(y.begin(), y.begin() + 520) ==
                std::vector<float>(first.begin() + 520, first.begin() + 1040)));
  });
}

BOOST_AUTO_TEST_CASE(params_that_cannot_be_are_refused_and_no_rows_are_no_work) {
  const Case c(DType::kBF16, 64, 0);
  auto p = c.params();
  p.n_rows = 0;
  BOOST_TEST(cuda::rms_norm(p, nullptr) == cudaSuccess);
  p = c.params();
  p.dim = 0;
  BOOST_TEST(cuda::rms_norm(p, nullptr) == cudaErrorInvalidValue);
  p = c.params();
  p.dim = 40000;
  BOOST_TEST(cuda::rms_norm(p, nullptr) == cudaErrorInvalidValue);
  p = c.params();
  p.dtype = DType::kI8;
  BOOST_TEST(cuda::rms_norm(p, nullptr) == cudaErrorInvalidValue);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
