// RMSNorm and LayerNorm on a GPU, as kernels/norm.h defines them.
//
// Sums are in float32, their order depends on dim and dtype alone. Results are rounded to dtype
// once; against float64 within 4e-6 plus that rounding for results within +-8.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"

namespace hs::cuda {

// All pointers are device memory.
struct NormParams {
  DType dtype = DType::kBF16;     // of x and y: kF32, kF16 or kBF16
  const void* x = nullptr;        // (n_rows, dim), rows x_stride apart
  const float* weight = nullptr;  // (dim)
  const float* bias = nullptr;    // (dim); layer norm only, may be null
  void* y = nullptr;              // (n_rows, dim), rows y_stride apart; may equal x
  int64_t n_rows = 0;
  int64_t dim = 0;       // at most 16384 (4096 when a row is not made of whole 16-byte pieces)
  int64_t x_stride = 0;  // in elements
  int64_t y_stride = 0;
  float eps = 0;
};

// cudaErrorInvalidValue for params that the above does not allow; no error for no rows.
cudaError_t rms_norm(const NormParams& params, cudaStream_t stream);
cudaError_t layer_norm(const NormParams& params, cudaStream_t stream);

}  // namespace hs::cuda
