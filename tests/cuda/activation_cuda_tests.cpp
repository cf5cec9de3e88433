// Proves gated activations and the end of a linear layer on the emulated GPU against float64: every
// activation, dtype, widths, strides, bias, accumulation.
#include "cuda/cuda_testing.h"
#include "kernels/activation_cuda.h"

namespace hs::test {
namespace {

constexpr Epilogue kEpilogues[] = {Epilogue::kNone,      Epilogue::kGeluErf, Epilogue::kGeluTanh,
                                   Epilogue::kQuickGelu, Epilogue::kSilu,    Epilogue::kRelu};

double activated(double x, Epilogue epilogue) {
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

}  // namespace

BOOST_AUTO_TEST_SUITE(activation_cuda_tests)

BOOST_AUTO_TEST_CASE(gated_activations_match_float64) {
  under_every_schedule([] {
    for (const DType dtype : kDTypes) {
      for (const int64_t dim : {1, 7, 8, 264, 2051}) {
        for (const Epilogue activation : {Epilogue::kSilu, Epilogue::kGeluTanh}) {
          constexpr int64_t kRows = 3;
          const auto n = static_cast<size_t>(kRows * dim);
          const Values gate_up(dtype, random_floats(2 * n, 5, -9, 9)), y(dtype, n);
          BOOST_TEST(cuda::gated_activation({.dtype = dtype,
                                             .gate_up = gate_up.data(),
                                             .y = y.data(),
                                             .n_rows = kRows,
                                             .dim = dim,
                                             .activation = activation},
                                            nullptr) == cudaSuccess);
          std::vector<double> wanted;
          for (int64_t r = 0; r < kRows; ++r) {
            for (int64_t i = 0; i < dim; ++i) {
              const auto gate = static_cast<size_t>(r * 2 * dim + i);
              wanted.push_back(activated(double{gate_up.get(gate)}, activation) *
                               double{gate_up.get(gate + static_cast<size_t>(dim))});
            }
          }
          BOOST_TEST(error_share(dtype, y.get(), wanted, 3e-5) <= 1,
                     "dim " << dim << " " << dtype_name(dtype));
          BOOST_TEST(y.intact());
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(bias_activation_and_accumulation_match_float64) {
  under_every_schedule([] {
    for (const DType dtype : kDTypes) {
      for (const Epilogue activation : kEpilogues) {
        for (const int64_t dim : {5, 64}) {
          for (const bool accumulate : {false, true}) {
            constexpr int64_t kRows = 4;
            const int64_t stride = dim + 8;
            const auto n = static_cast<size_t>(kRows * stride);
            const Values x(dtype, random_floats(n, 6, -6, 6)), y(dtype, random_floats(n, 7));
            const DeviceArray<float> bias(random_floats(static_cast<size_t>(dim), 8));
            const std::vector<float> before = y.get();
            BOOST_TEST(cuda::bias_activation({.dtype = dtype,
                                              .x = x.data(),
                                              .bias = accumulate ? bias.data() : nullptr,
                                              .y = y.data(),
                                              .n_rows = kRows,
                                              .dim = dim,
                                              .x_stride = stride,
                                              .y_stride = stride,
                                              .activation = activation,
                                              .accumulate = accumulate},
                                             nullptr) == cudaSuccess);
            std::vector<double> wanted(before.begin(), before.end());
            for (int64_t r = 0; r < kRows; ++r) {
              for (int64_t i = 0; i < dim; ++i) {
                const auto at = static_cast<size_t>(r * stride + i);
                const double shift = accumulate ? double{bias.data()[i]} : 0.0;
                const double v = activated(double{x.get(at)} + shift, activation);
                wanted[at] = accumulate ? wanted[at] + v : v;
              }
            }
            BOOST_TEST(error_share(dtype, y.get(), wanted, 4e-6) <= 1, dtype_name(dtype));
          }
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(in_place_works_and_nan_stays_nan) {
  const Values x(DType::kF32, {-1.0F, 2.0F, NAN, -0.0F});
  BOOST_TEST(cuda::bias_activation({.dtype = DType::kF32,
                                    .x = x.data(),
                                    .y = x.data(),
                                    .n_rows = 1,
                                    .dim = 4,
                                    .x_stride = 4,
                                    .y_stride = 4,
                                    .activation = Epilogue::kRelu},
                                   nullptr) == cudaSuccess);
  BOOST_TEST(x.get(0) == 0);
  BOOST_TEST(x.get(1) == 2);
  BOOST_TEST(std::isnan(x.get(2)));
}

BOOST_AUTO_TEST_CASE(params_that_cannot_be_are_refused_and_no_rows_are_no_work) {
  BOOST_TEST(cuda::gated_activation({.n_rows = 0, .dim = 8}, nullptr) == cudaSuccess);
  BOOST_TEST(cuda::gated_activation({.n_rows = 1, .dim = 0}, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(cuda::bias_activation({.n_rows = 0, .dim = 8}, nullptr) == cudaSuccess);
  BOOST_TEST(cuda::bias_activation({.dtype = DType::kI32, .n_rows = 1, .dim = 8}, nullptr) ==
             cudaErrorInvalidValue);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
