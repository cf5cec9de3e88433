// The one list of what is compiled for several instruction sets: each public X_cpu() calls the
// version of it that cpu_isa() says this machine runs. To add an op, include its header and add its
// line to the list at the end.
#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/isa.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/rows.h"
#include "kernels/sampling.h"
#include "kernels/team.h"

#define HS_DECLARE_(level, op, Params)       \
  namespace level {                          \
  void op(const Params& params, Team& team); \
  }

// Declares the op's three versions and defines the public one. Levels above AVX-512 that have no
// version of their own run the AVX-512 one.
#define HS_DISPATCH(op, Params)                \
  HS_DECLARE_(isa_baseline, op, Params)        \
  HS_DECLARE_(isa_avx2, op, Params)            \
  HS_DECLARE_(isa_avx512, op, Params)          \
  void op(const Params& params, Team& team) {  \
    switch (cpu_isa()) {                       \
      case Isa::kBaseline:                     \
        return isa_baseline::op(params, team); \
      case Isa::kAvx2:                         \
        return isa_avx2::op(params, team);     \
      case Isa::kAvx512:                       \
      case Isa::kAvx512Bf16:                   \
      case Isa::kAmx:                          \
        return isa_avx512::op(params, team);   \
    }                                          \
  }

namespace hs {

// Linear layers alone have versions above AVX-512, for bf16 weights.
HS_DECLARE_(isa_baseline, linear_cpu, LinearParams)
HS_DECLARE_(isa_avx2, linear_cpu, LinearParams)
HS_DECLARE_(isa_avx512, linear_cpu, LinearParams)
HS_DECLARE_(isa_avx512bf16, linear_cpu, LinearParams)
HS_DECLARE_(isa_amx, linear_cpu, LinearParams)
void linear_cpu(const LinearParams& params, Team& team) {
  const bool bf16 = params.weight.dtype == DType::kBF16;
  switch (cpu_isa()) {
    case Isa::kBaseline:
      return isa_baseline::linear_cpu(params, team);
    case Isa::kAvx2:
      return isa_avx2::linear_cpu(params, team);
    case Isa::kAvx512:
      return isa_avx512::linear_cpu(params, team);
    case Isa::kAvx512Bf16:
      return bf16 ? isa_avx512bf16::linear_cpu(params, team) : isa_avx512::linear_cpu(params, team);
    case Isa::kAmx:
      return bf16 ? isa_amx::linear_cpu(params, team) : isa_avx512::linear_cpu(params, team);
  }
}

HS_DISPATCH(rms_norm_cpu, NormParams)
HS_DISPATCH(layer_norm_cpu, NormParams)
HS_DISPATCH(silu_mul_cpu, SiluMulParams)
HS_DISPATCH(rope_append_cpu, RopeAppendParams)
HS_DISPATCH(rope_rotate_cpu, RopeRotateParams)
HS_DISPATCH(paged_attention_cpu, PagedAttentionParams)
HS_DISPATCH(packed_attention_cpu, PackedAttentionParams)
HS_DISPATCH(embed_cpu, EmbedParams)
HS_DISPATCH(embed_packed_cpu, EmbedPackedParams)
HS_DISPATCH(gather_rows_cpu, GatherRowsParams)
HS_DISPATCH(add_rows_cpu, AddRowsParams)
HS_DISPATCH(add_parts_cpu, AddPartsParams)
HS_DISPATCH(sample_cpu, SampleParams)

}  // namespace hs
