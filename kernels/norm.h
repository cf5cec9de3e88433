// RMSNorm and LayerNorm over the last dimension. Sums in float32, in a fixed number of partial
// sums, so a row's result depends on the row alone; against float64 within 4e-6 for results within
// +-8. Variance from the mean (two passes).
//   rms:   y = x / sqrt(mean(x^2) + eps) * weight
//   layer: y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias
#pragma once

#include <cstdint>

#include "kernels/team.h"

namespace hs {

struct NormParams {
  const float* x = nullptr;       // (n_rows, dim), rows x_stride apart
  const float* weight = nullptr;  // (dim)
  const float* bias = nullptr;    // (dim); layer norm only, may be null
  float* y = nullptr;             // (n_rows, dim), rows y_stride apart; may equal x
  int64_t n_rows = 0;
  int64_t dim = 0;
  int64_t x_stride = 0;  // in floats
  int64_t y_stride = 0;  // in floats
  float eps = 0;
};

void rms_norm_cpu(const NormParams& params, Team& team);
void layer_norm_cpu(const NormParams& params, Team& team);

}  // namespace hs
