// Activations on a GPU: gated ones (kernels/activation.h), and the end of a linear layer whose
// product a library computed. float32 inside, rounded to dtype once; within 4e-6 relative of
// float64 plus that rounding.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"
#include "kernels/linear.h"

namespace hs::cuda {

// y = activation(gate) * up. All pointers are device memory.
struct GatedParams {
  DType dtype = DType::kBF16;     // of gate_up and y: kF32, kF16 or kBF16
  const void* gate_up = nullptr;  // (n_rows, 2 * dim): gate then up
  void* y = nullptr;              // (n_rows, dim); must not overlap gate_up
  int64_t n_rows = 0;
  int64_t dim = 0;
  Epilogue activation = Epilogue::kSilu;
};
cudaError_t gated_activation(const GatedParams& params, cudaStream_t stream);

// y = activation(x + bias), or y += with accumulate (the sum is rounded once).
struct BiasActivationParams {
  DType dtype = DType::kBF16;   // of x and y
  const void* x = nullptr;      // (n_rows, dim), rows x_stride apart
  const float* bias = nullptr;  // (dim) or null
  void* y = nullptr;            // (n_rows, dim), rows y_stride apart; may equal x
  int64_t n_rows = 0;
  int64_t dim = 0;
  int64_t x_stride = 0;  // in elements
  int64_t y_stride = 0;
  Epilogue activation = Epilogue::kNone;
  bool accumulate = false;
};
cudaError_t bias_activation(const BiasActivationParams& params, cudaStream_t stream);

}  // namespace hs::cuda
