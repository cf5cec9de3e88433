#include "kernels/activation.h"
#include "kernels/row_work.h"
#include "kernels/simd_math.h"

namespace hs::HS_ISA_NS {
namespace {

HS_INLINE F32 silu(F32 x) {
  return x / (1.0F + exp(-x));
}

void silu_mul_row(const float* gate, const float* up, float* y, int64_t dim) {
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) store(y + i, silu(load(gate + i)) * load(up + i));
  if (const int64_t n = dim - i; n > 0) {
    store_n(y + i, silu(load_n(gate + i, n)) * load_n(up + i, n), n);
  }
}

}  // namespace

void silu_mul_cpu(const SiluMulParams& params, Team& team) {
  const int64_t dim = params.dim;
  run_rows(team, params.n_rows, 2 * dim, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* gate = params.gate_up + r * 2 * dim;
      silu_mul_row(gate, gate + dim, params.y + r * dim, dim);
    }
  });
}

}  // namespace hs::HS_ISA_NS
