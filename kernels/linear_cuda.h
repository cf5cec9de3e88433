// Linear layer on a GPU: y = epilogue(x W^T + bias) (+ y), as kernels/linear.h defines it. For few
// rows (decode) by a kernel of ours; larger products are a library's (device/cuda/blas_lt.h).
//
// The weight is as the checkpoint stores it. Products are summed in float32 on tensor cores, in an
// order that depends on in_dim alone: a row's result does not depend on the batch. Against float64:
// within 1e-5 * sqrt(in_dim) for values within +-2, plus one rounding to the output's dtype.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"
#include "kernels/linear.h"

namespace hs::cuda {

constexpr int64_t kFewRowsMax = 16;

// All pointers are device memory, strides in elements.
struct LinearParams {
  DType dtype = DType::kBF16;    // of x: kF16 or kBF16
  DType y_dtype = DType::kBF16;  // the same, or kF32 (logits)
  const void* x = nullptr;       // (n_rows, in_dim), rows x_stride apart
  const void* weight = nullptr;  // (out_dim, in_dim) row-major, of x's dtype
  const float* bias = nullptr;   // (out_dim) or null
  void* y = nullptr;             // (n_rows, out_dim), rows y_stride apart; must not overlap x
  int64_t n_rows = 0;
  int64_t out_dim = 0;
  int64_t in_dim = 0;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
  Epilogue epilogue = Epilogue::kNone;
  bool accumulate = false;  // add to y; the sum is rounded once
};
// n_rows: at most kFewRowsMax.
cudaError_t few_rows_linear(const LinearParams& params, cudaStream_t stream);

}  // namespace hs::cuda
