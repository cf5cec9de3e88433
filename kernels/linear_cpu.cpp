// Linear layers in float32 arithmetic. Weights move once from memory per call; flops: 2 n_rows
// in_dim out_dim.
#include "kernels/linear_blocks.h"

namespace hs::HS_ISA_NS {

void linear_cpu(const LinearParams& params, Team& team);
void linear_cpu(const LinearParams& params, Team& team) {
  if (params.n_rows <= 0 || params.weight.out_dim <= 0) return;
  if (params.weight.dtype == DType::kBF16) return linear<Bf16Weights>(params, team);
  linear<F32Weights>(params, team);
}

}  // namespace hs::HS_ISA_NS
