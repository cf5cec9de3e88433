// Which instruction set the CPU kernels run with, found at run time.
#pragma once

#include <string_view>

namespace hs {

// Ordered: each level has everything of the ones before.
enum class Isa {
  kBaseline,    // any x86-64 (SSE2), slow but right
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // and AVX512-BF16
  kAmx,         // and AMX-TILE, AMX-BF16 that the kernel lets us use
};

// The best level this machine really runs (AMX is probed by asking the kernel and a guarded test,
// not by CPUID alone), lowered by HETEROSERVE_CPU_ISA=baseline|avx2|avx512|avx512_bf16|amx. Found
// once, then constant.
Isa cpu_isa();
std::string_view isa_name(Isa isa);

// For tests: run all later kernels at this level, which must not be above what the machine has.
void set_cpu_isa_for_test(Isa isa);

}  // namespace hs
