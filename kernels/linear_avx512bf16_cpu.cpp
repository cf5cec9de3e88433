// Linear layers with bf16 weights by VDPBF16PS: x is rounded to bf16 too, products of two k at a
// time, float32 sums.
//
// A row's result does not depend on its batch: each sum is one chain of such instructions over k.
// The instruction treats subnormal numbers as zero. Developed on a machine without AVX512-BF16: its
// logic is tested against a model of the instruction (tests/kernels/bf16_model.h); real hardware
// has not run it.
#include "kernels/linear_blocks.h"

#ifdef HS_INSTRUCTION_MODEL
#include HS_INSTRUCTION_MODEL
#endif

namespace hs::HS_ISA_NS {

#ifndef HS_INSTRUCTION_MODEL
// Adds both products of each 32-bit pair to the pair's sum.
HS_INLINE void dot_bf16_pairs(U32 x, U32 w, F32& sum) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
}
#endif

// X: two neighbours of a row as bf16, the even one in the lower half, as in the packed weights.
struct Bf16Pairs {
  using X = uint32_t;
  using Vector = U32;
  static constexpr int kParts = 1;
  static constexpr int kKPerX = 2;
  static constexpr bool kXIsFloat = false;
  static constexpr DType kDType = DType::kBF16;

  HS_INLINE Vector load_part(const std::byte* w, int) {
    Vector v;
    std::memcpy(&v, w, sizeof v);
    return v;
  }
  HS_INLINE Vector repeat(X x) { return U32{} + x; }
  HS_INLINE void multiply_add(Vector x, Vector w, F32& sum) { dot_bf16_pairs(x, w, sum); }
  HS_INLINE uint32_t round_to_bf16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    return x != x ? (bits >> 16) | 0x40 : rounded;
  }
  HS_INLINE X element(const float* x, int64_t in_dim, int64_t pair) {
    const uint32_t even = round_to_bf16(x[2 * pair]);
    const uint32_t odd = 2 * pair + 1 < in_dim ? round_to_bf16(x[2 * pair + 1]) : 0;
    return odd << 16 | even;
  }
};

void linear_cpu(const LinearParams& params, Team& team);
void linear_cpu(const LinearParams& params, Team& team) {
  if (params.n_rows <= 0 || params.weight.out_dim <= 0) return;
  linear<Bf16Pairs>(params, team);
}

}  // namespace hs::HS_ISA_NS
