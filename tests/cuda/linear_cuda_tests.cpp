// Proves the few-rows linear layer on the emulated GPU against float64: rows, odd sizes, dtypes,
// bias, activation, accumulation, float32 outputs; that a row does not depend on its batch.
#include "cuda/cuda_testing.h"
#include "kernels/linear_cuda.h"

namespace hs::test {
namespace {

struct Case {
  DType dtype;
  int64_t n_rows, out_dim, in_dim;
  DType y_dtype = DType::kBF16;
  Epilogue epilogue = Epilogue::kNone;
  bool accumulate = false;
};

struct Setup {
  Case c;
  int64_t x_stride, y_stride;
  Values x, weight, y;
  DeviceArray<float> bias;

  explicit Setup(const Case& k)
      : c(k),
        x_stride(k.in_dim + 8),
        y_stride(k.out_dim + 3),
        x(k.dtype, random_floats(size(k.n_rows, x_stride), 71)),
        weight(k.dtype, random_floats(size(k.out_dim, k.in_dim), 72)),
        y(k.y_dtype, random_floats(size(k.n_rows, y_stride), 73)),
        bias(random_floats(size(k.out_dim, 1), 75)) {}
  static size_t size(int64_t a, int64_t b) { return static_cast<size_t>(a * b); }
  cuda::LinearParams params() const {
    return {.dtype = c.dtype,
            .y_dtype = c.y_dtype,
            .x = x.data(),
            .weight = weight.data(),
            .bias = bias.data(),
            .y = y.data(),
            .n_rows = c.n_rows,
            .out_dim = c.out_dim,
            .in_dim = c.in_dim,
            .x_stride = x_stride,
            .y_stride = y_stride,
            .epilogue = c.epilogue,
            .accumulate = c.accumulate};
  }
  double weight_at(int64_t o, int64_t i) const {
    return double{weight.get(static_cast<size_t>(o * c.in_dim + i))};
  }
};

std::vector<double> reference(const Setup& s) {
  const std::vector<float> before = s.y.get();
  std::vector<double> wanted(before.begin(), before.end());
  for (int64_t r = 0; r < s.c.n_rows; ++r) {
    for (int64_t o = 0; o < s.c.out_dim; ++o) {
      double sum = double{s.bias.data()[o]};
      for (int64_t i = 0; i < s.c.in_dim; ++i) {
        sum += s.weight_at(o, i) * double{s.x.get(static_cast<size_t>(r * s.x_stride + i))};
      }
      if (s.c.epilogue == Epilogue::kQuickGelu) sum /= 1 + std::exp(-1.702 * sum);
      double& y = wanted[static_cast<size_t>(r * s.y_stride + o)];
      y = s.c.accumulate ? y + sum : sum;
    }
  }
  return wanted;
}

void check(const Case& c) {
  const Setup s(c);
  const auto wanted = reference(s);
  BOOST_TEST(cuda::few_rows_linear(s.params(), nullptr) == cudaSuccess);
  BOOST_TEST(error_share(c.y_dtype, s.y.get(), wanted,
                         1e-5 * std::sqrt(static_cast<double>(c.in_dim))) <= 1,
             dtype_name(c.dtype) << " " << c.n_rows << " rows, " << c.out_dim << " x " << c.in_dim);
  BOOST_TEST(s.y.intact());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(linear_cuda_tests)

BOOST_AUTO_TEST_CASE(one_to_sixteen_rows_match_float64) {
  under_every_schedule([] {
    for (const DType dtype : kHalfDTypes) {
      for (const int64_t n_rows : {1, 2, 7, 8, 9, 16}) {
        check({.dtype = dtype, .n_rows = n_rows, .out_dim = 33, .in_dim = 264, .y_dtype = dtype});
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(odd_and_tiny_sizes_match_float64) {
  under_every_schedule([] {
    for (const DType dtype : kHalfDTypes) {
      for (const auto& [out_dim, in_dim] :
           {std::pair{1, 1}, std::pair{16, 8}, std::pair{5, 31}, std::pair{48, 1025},
            std::pair{100, 32}, std::pair{17, 2048}}) {
        check(
            {.dtype = dtype, .n_rows = 3, .out_dim = out_dim, .in_dim = in_dim, .y_dtype = dtype});
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(logits_in_float32_activation_and_accumulation_match_float64) {
  under_every_schedule([] {
    for (const DType dtype : kHalfDTypes) {
      for (const bool accumulate : {false, true}) {
        for (const DType y_dtype : {dtype, DType::kF32}) {
          check({dtype, 11, 40, 96, y_dtype, Epilogue::kQuickGelu, accumulate});
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_row_has_the_same_bits_in_every_batch_and_schedule) {
  std::vector<float> first;
  under_every_schedule([&] {
    const Setup s({.dtype = DType::kBF16,
                   .n_rows = 16,
                   .out_dim = 40,
                   .in_dim = 520,
                   .y_dtype = DType::kF32});
    BOOST_TEST(cuda::few_rows_linear(s.params(), nullptr) == cudaSuccess);
    if (first.empty()) first = s.y.get();
    BOOST_TEST(s.y.get() == first);
    for (const int64_t row : {0, 5, 15}) {
      const Setup alone(s.c);
      auto p = alone.params();
      p.n_rows = 1;
      p.x = static_cast<const uint16_t*>(p.x) + row * p.x_stride;
      BOOST_TEST(cuda::few_rows_linear(p, nullptr) == cudaSuccess);
      const auto y = alone.y.get();
      for (size_t o = 0; o < 40; ++o) {
        BOOST_TEST(y[o] == first[static_cast<size_t>(row * s.y_stride) + o]);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(params_that_cannot_be_are_refused_and_no_rows_are_no_work) {
  const Setup s({.dtype = DType::kBF16, .n_rows = 1, .out_dim = 8, .in_dim = 8});
  auto p = s.params();
  p.n_rows = 0;
  BOOST_TEST(cuda::few_rows_linear(p, nullptr) == cudaSuccess);
  p.n_rows = 17;
  BOOST_TEST(cuda::few_rows_linear(p, nullptr) == cudaErrorInvalidValue);
  p = s.params();
  p.dtype = DType::kF32;
  BOOST_TEST(cuda::few_rows_linear(p, nullptr) == cudaErrorInvalidValue);
  p = s.params();
  p.y_dtype = DType::kF16;
  BOOST_TEST(cuda::few_rows_linear(p, nullptr) == cudaErrorInvalidValue);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
