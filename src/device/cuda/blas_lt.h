// Linear layers of many rows by cuBLASLt: y = epilogue(x W^T + bias) (+ y).
//
// The library is asked for an algorithm once a shape, rows rounded up to a power of two, and the
// answer is kept. It is asked for its own epilogue where the layer has one that it knows (bias,
// ReLU, tanh GELU); where it declines, and for all other activations, a kernel of ours
// (kernels/activation_cuda.h) follows the product.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "base/dtype.h"
#include "device/cuda/blas_lt_api.h"
#include "device/cuda/context.h"
#include "device/device.h"
#include "kernels/linear_cuda.h"

namespace hs::cuda {

class BlasLt {
 public:
  // Work on `stream`; takes the library's workspace from the device (4 MiB, 32 MiB from sm_90 on)
  // and as much for sums that are not finished. Errors: load_blas_lt()'s, and the device's.
  static Result<std::unique_ptr<BlasLt>> create(Context& context, cudaStream_t stream);
  BlasLt(const BlasLt&) = delete;
  BlasLt& operator=(const BlasLt&) = delete;
  ~BlasLt();

  // Any number of rows.
  Status linear(const LinearParams& params);
  // How often the library was asked for an algorithm.
  int64_t n_asked() const { return n_asked_; }

 private:
  // What an algorithm depends on.
  struct Key {
    int64_t rows = 0;  // a power of two
    int64_t out_dim = 0;
    int64_t in_dim = 0;
    int64_t x_stride = 0;
    int64_t y_stride = 0;
    DType dtype = DType::kBF16;
    DType y_dtype = DType::kBF16;
    uint32_t alignment = 0;  // of x, weight and y, at most 256
    uint32_t epilogue = 0;
    bool accumulate = false;
    auto operator<=>(const Key&) const = default;
  };
  struct Call;                                       // descriptors of one product
  using Algorithm = std::optional<BlasLtAlgorithm>;  // absent: the library has none

  BlasLt(Context& context, cudaStream_t stream, const BlasLtApi& api)
      : context_(context), stream_(stream), api_(api) {}
  Result<bool> multiply(const LinearParams& params, uint32_t epilogue, const float* bias,
                        bool accumulate, bool may_decline);
  Result<const Algorithm*> algorithm(const Key& key, const float* bias);
  Status finish(const LinearParams& params, const void* product, int64_t product_stride,
                bool accumulate);
  Status through_scratch(const LinearParams& params);

  Context& context_;
  cudaStream_t stream_;
  const BlasLtApi& api_;
  void* handle_ = nullptr;
  Buffer workspace_;
  Buffer scratch_;
  std::map<Key, Algorithm> algorithms_;
  int64_t n_asked_ = 0;
};

}  // namespace hs::cuda
