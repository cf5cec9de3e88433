// Gated activation: y = silu(gate) * up, silu(x) = x / (1 + exp(-x)). Within 1e-6 relative of
// float64.
#pragma once

#include <cstdint>

#include "kernels/team.h"

namespace hs {

struct SiluMulParams {
  const float* gate_up = nullptr;  // (n_rows, 2 * dim): gate then up
  float* y = nullptr;              // (n_rows, dim); must not overlap gate_up
  int64_t n_rows = 0;
  int64_t dim = 0;
};

void silu_mul_cpu(const SiluMulParams& params, Team& team);

}  // namespace hs
