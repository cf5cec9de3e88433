// Proves the fake cuBLASLt: products and epilogues against float64, what it declines, and that an
// algorithm or a workspace used for what it is not meant for shows.
#include <bit>
#include <cmath>

#include "cuda/cuda_testing.h"
#include "cuda/fake_runtime_testing.h"
#include "cuda_emu/fake_cublaslt.h"
#include "cuda_emu/fake_cublaslt_product.h"

namespace hs::test {
namespace {

namespace blas = cuda_emu::blas;

// d (rows x cols) = epilogue(alpha a^T b + beta c + bias), a: inner x rows, b: inner x cols.
struct Shape {
  size_t rows = 24;
  size_t cols = 5;
  size_t inner = 40;
  cudaDataType type = CUDA_R_16BF;
  cudaDataType out_type = CUDA_R_16BF;
  uint32_t epilogue = blas::kDefault;
  float alpha = 1;
  float beta = 0;
};

template <typename T>
void* upload(const std::vector<T>& values) {
  void* p = nullptr;
  BOOST_REQUIRE(cudaMalloc(&p, values.size() * sizeof(T)) == cudaSuccess);
  BOOST_REQUIRE(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice) ==
                cudaSuccess);
  return p;
}

void* upload(const std::vector<float>& values, cudaDataType type) {
  std::vector<unsigned char> bytes(values.size() * blas::type_bytes(type));
  for (size_t i = 0; i < values.size(); ++i) {
    blas::set_element(bytes.data(), type, i, values[i]);
  }
  return upload(bytes);
}

// What a value is once it is stored.
float stored(float value, cudaDataType type) {
  float bits = 0;
  blas::set_element(&bits, type, 0, value);
  return blas::element(&bits, type, 0);
}

// Data, descriptors and the algorithm of one product on device 0.
class Product {
 public:
  explicit Product(const Shape& shape)
      : shape_(shape),
        a_values_(random_floats(shape.rows * shape.inner, 1)),
        b_values_(random_floats(shape.cols * shape.inner, 2)),
        c_values_(random_floats(shape.rows * shape.cols, 3)),
        bias_values_(random_floats(shape.rows, 4)) {
    BOOST_REQUIRE(cudaSetDevice(0) == cudaSuccess);
    a = upload(a_values_, shape.type);
    b = upload(b_values_, shape.type);
    d = upload(c_values_, shape.out_type);
    bias_ = upload(bias_values_, shape.out_type);
    BOOST_REQUIRE(cudaMalloc(&workspace, kWorkspace) == cudaSuccess);
    BOOST_REQUIRE(cublasLtCreate(&handle) == blas::kSuccess);
    BOOST_REQUIRE(cublasLtMatmulDescCreate(&desc, blas::kCompute32F, CUDA_R_32F) == blas::kSuccess);
    set(blas::kTransA, int32_t{1});
    set(blas::kEpilogue, shape.epilogue);
    set(blas::kBiasPointer, bias_);
    layout(&layouts[0], shape.type, shape.inner, shape.rows);
    layout(&layouts[1], shape.type, shape.inner, shape.cols);
    layout(&layouts[2], shape.out_type, shape.rows, shape.cols);
    layout(&layouts[3], shape.out_type, shape.rows, shape.cols);
  }
  template <typename T>
  void set(int attribute, const T& value) {
    BOOST_REQUIRE(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value) ==
                  blas::kSuccess);
  }
  int choose(uint32_t alignment = 16) {
    void* preference = nullptr;
    const uint64_t bytes = kWorkspace;
    int n = 0;
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, blas::kWorkspaceBytesMax, &bytes,
                                         sizeof bytes);
    for (int side = blas::kAlignmentA; side <= blas::kAlignmentD; ++side) {
      cublasLtMatmulPreferenceSetAttribute(preference, side, &alignment, sizeof alignment);
    }
    const int status = cublasLtMatmulAlgoGetHeuristic(
        handle, desc, layouts[0], layouts[1], layouts[2], layouts[3], preference, 1, &chosen, &n);
    cublasLtMatmulPreferenceDestroy(preference);
    BOOST_TEST(n == (status == blas::kSuccess ? 1 : 0));
    return status;
  }
  int run(cudaStream_t stream, size_t workspace_bytes = kWorkspace) {
    return cublasLtMatmul(handle, desc, &shape_.alpha, a, layouts[0], b, layouts[1], &shape_.beta,
                          d, layouts[2], d, layouts[3], &chosen.algorithm, workspace,
                          workspace_bytes, stream);
  }
  // The largest error, in units of what one rounding may cost.
  double error(const FakeMachine& machine) const {
    const DType dtype = shape_.out_type == CUDA_R_32F   ? DType::kF32
                        : shape_.out_type == CUDA_R_16F ? DType::kF16
                                                        : DType::kBF16;
    const size_t n = shape_.rows * shape_.cols;
    std::vector<unsigned char> bytes(n * blas::type_bytes(shape_.out_type));
    machine.peek(bytes.data(), d, bytes.size());
    std::vector<float> got(n);
    std::vector<double> wanted(n);
    for (size_t i = 0; i < n; ++i) {
      got[i] = blas::element(bytes.data(), shape_.out_type, i);
      wanted[i] = reference(i % shape_.rows, i / shape_.rows);
    }
    return error_share(dtype, got, wanted, 1e-5);
  }
  void destroy() {
    for (void* l : layouts) cublasLtMatrixLayoutDestroy(l);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(handle);
    for (void* p : {a, b, d, bias_, workspace}) cudaFree(p);
  }

  static constexpr size_t kWorkspace = size_t{64} << 10;
  void* handle = nullptr;
  void* desc = nullptr;
  void* layouts[4] = {};
  void* a = nullptr;
  void* b = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;
  blas::Heuristic chosen = {};

 private:
  static void layout(void** to, cudaDataType type, size_t rows, size_t cols) {
    BOOST_REQUIRE(cublasLtMatrixLayoutCreate(to, type, rows, cols, static_cast<int64_t>(rows)) ==
                  blas::kSuccess);
  }
  double reference(size_t row, size_t col) const {
    double sum = 0;
    for (size_t k = 0; k < shape_.inner; ++k) {
      sum += double{stored(a_values_[row * shape_.inner + k], shape_.type)} *
             double{stored(b_values_[col * shape_.inner + k], shape_.type)};
    }
    double value = double{shape_.alpha} * sum;
    const float old = stored(c_values_[col * shape_.rows + row], shape_.out_type);
    value += double{shape_.beta} * double{old};
    if ((shape_.epilogue & blas::kBias) != 0) {
      value += double{stored(bias_values_[row], shape_.out_type)};
    }
    if ((shape_.epilogue & blas::kRelu) != 0) value = std::max(value, 0.0);
    if ((shape_.epilogue & blas::kGelu) != 0) {
      value = 0.5 * value *
              (1 + std::tanh(std::sqrt(2 / M_PI) * (value + 0.044715 * value * value * value)));
    }
    return value;
  }

  Shape shape_;
  std::vector<float> a_values_, b_values_, c_values_, bias_values_;
  void* bias_ = nullptr;
};

void check_product(const Shape& shape) {
  FakeMachine machine(two_tiers());
  Product product(shape);
  const cudaStream_t stream = new_stream(0);
  BOOST_REQUIRE(product.choose() == blas::kSuccess);
  BOOST_REQUIRE(product.run(stream) == blas::kSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
  BOOST_TEST(product.error(machine) <= 1);
  BOOST_TEST(machine.reports().empty());
  product.destroy();
  BOOST_TEST(cudaStreamDestroy(stream) == cudaSuccess);
  BOOST_TEST(machine.leaks().empty());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fake_cublaslt_tests)

BOOST_AUTO_TEST_CASE(products_are_those_of_float64_in_every_type) {
  for (const auto& [type, out] : {std::pair{CUDA_R_16BF, CUDA_R_16BF},
                                  {CUDA_R_16BF, CUDA_R_32F},
                                  {CUDA_R_16F, CUDA_R_16F},
                                  {CUDA_R_16F, CUDA_R_32F},
                                  {CUDA_R_32F, CUDA_R_32F}}) {
    BOOST_TEST_CONTEXT("types " << type << ", " << out) {
      check_product({.type = type, .out_type = out});
    }
  }
  check_product({.rows = 1, .cols = 1, .inner = 1, .out_type = CUDA_R_32F});
  check_product({.rows = 65, .cols = 33, .inner = 129, .out_type = CUDA_R_32F});
}

BOOST_AUTO_TEST_CASE(epilogues_and_factors_are_those_of_float64) {
  for (const uint32_t epilogue :
       {uint32_t{blas::kBias}, uint32_t{blas::kRelu}, blas::kRelu | uint32_t{blas::kBias},
        uint32_t{blas::kGelu}, blas::kGelu | uint32_t{blas::kBias}}) {
    BOOST_TEST_CONTEXT("epilogue " << epilogue) {
      check_product({.out_type = CUDA_R_32F, .epilogue = epilogue});
    }
  }
  check_product({.out_type = CUDA_R_32F, .alpha = 0.5F, .beta = 1});
  check_product({.epilogue = blas::kBias, .beta = 2});
}

BOOST_AUTO_TEST_CASE(what_the_library_has_no_kernel_for_is_declined) {
  const FakeMachine machine(two_tiers());
  Product product({.epilogue = blas::kBias});
  product.set(blas::kBiasType, int32_t{CUDA_R_32F});  // with 16-bit results
  BOOST_TEST(product.choose() == blas::kNotSupported);
  product.set(blas::kEpilogue, uint32_t{64});
  BOOST_TEST(product.choose() == blas::kNotSupported);
  Product mixed({.type = CUDA_R_16F, .out_type = CUDA_R_16BF});
  BOOST_TEST(mixed.choose() == blas::kNotSupported);
  std::swap(product.layouts[0], product.layouts[2]);  // sizes that do not fit
  BOOST_TEST(product.choose() == blas::kInvalidValue);
  BOOST_TEST(cublasLtMatmulDescSetAttribute(product.desc, 99, &product, 4) == blas::kInvalidValue);
}

BOOST_AUTO_TEST_CASE(an_algorithm_serves_only_what_it_was_chosen_for) {
  FakeMachine machine(two_tiers());
  Product product({});
  const cudaStream_t stream = new_stream(0);
  BOOST_REQUIRE(product.choose() == blas::kSuccess);
  product.set(blas::kEpilogue, uint32_t{blas::kRelu});
  BOOST_TEST(product.run(stream) == blas::kNotSupported);
  BOOST_TEST(any_says(machine.reports(), "chosen for other types"));
  product.set(blas::kEpilogue, uint32_t{blas::kDefault});
  BOOST_TEST(product.run(stream, 1024) == blas::kNotSupported);
  BOOST_TEST(any_says(machine.reports(), "needs a larger workspace"));
  product.b = static_cast<std::byte*>(product.b) + 2;
  BOOST_TEST(product.run(stream) == blas::kNotSupported);
  BOOST_TEST(any_says(machine.reports(), "less aligned"));
  BOOST_TEST(product.choose(2) == blas::kSuccess);
  product.chosen.algorithm.data[0] = 0;
  BOOST_TEST(product.run(stream) == blas::kNotSupported);
  BOOST_TEST(any_says(machine.reports(), "not one of the heuristic's"));
}

BOOST_AUTO_TEST_CASE(matrices_beside_their_memory_lose_the_device) {
  FakeMachine machine(two_tiers());
  Product product({});
  const cudaStream_t stream = new_stream(0);
  BOOST_REQUIRE(product.choose(2) == blas::kSuccess);
  product.b = static_cast<std::byte*>(product.b) + 2;
  BOOST_TEST(product.run(stream) == blas::kSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  BOOST_TEST(any_says(machine.reports(), "product with B of 400 bytes at"));
  BOOST_TEST(product.run(stream) == blas::kExecutionFailed);
}

BOOST_AUTO_TEST_CASE(a_workspace_that_two_streams_share_is_seen) {
  const auto right = [](bool shared) {
    return [shared](FakeMachine& machine) {
      Product first({.out_type = CUDA_R_32F}), second({.out_type = CUDA_R_32F});
      const cudaStream_t one = new_stream(0), other = new_stream(0);
      if (shared) second.workspace = first.workspace;
      BOOST_TEST(first.choose() == blas::kSuccess);
      BOOST_TEST(second.choose() == blas::kSuccess);
      BOOST_TEST(first.run(one) == blas::kSuccess);
      BOOST_TEST(second.run(other) == blas::kSuccess);
      cudaDeviceSynchronize();
      return first.error(machine) <= 1 && second.error(machine) <= 1;
    };
  };
  BOOST_TEST(seeds_that_show(right(false)) == 0);
  BOOST_TEST(seeds_that_show(right(true)) > 1);
}

BOOST_AUTO_TEST_CASE(handles_belong_to_a_device) {
  FakeMachine machine(two_tiers());
  Product product({});
  BOOST_REQUIRE(product.choose() == blas::kSuccess);
  const cudaStream_t stream = new_stream(1);
  BOOST_TEST(product.run(stream) == blas::kExecutionFailed);
  BOOST_TEST(any_says(machine.reports(), "a handle of device 0 and a stream of device 1"));
}

BOOST_AUTO_TEST_CASE(products_are_captured_and_fail_as_they_are_told) {
  FakeMachine machine(two_tiers());
  Product product({.out_type = CUDA_R_32F});
  const cudaStream_t stream = new_stream(0);
  BOOST_REQUIRE(product.choose() == blas::kSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  BOOST_TEST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  BOOST_TEST(product.run(stream) == blas::kSuccess);
  BOOST_TEST(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  BOOST_TEST(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  BOOST_TEST(cudaGraphLaunch(exec, stream) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
  BOOST_TEST(product.error(machine) <= 1);
  machine.fail_call("cublasLtMatmul", 1, cudaErrorNotReady);
  BOOST_TEST(product.run(stream) == blas::kExecutionFailed);
  machine.fail_call("cublasLtMatmulAlgoGetHeuristic", 1, cudaErrorNotSupported);
  BOOST_TEST(product.choose() == blas::kNotSupported);
  BOOST_TEST(product.choose() == blas::kSuccess);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
