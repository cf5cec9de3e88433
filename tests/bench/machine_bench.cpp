// What this machine can do at best, as one line of JSON: hs_bench_machine [THREADS].
#include <fmt/format.h>

#include <cstdlib>

#include "bench/machine_limits.h"
#include "kernels/isa.h"

int main(int argc, char** argv) {
  const hs::MachineLimits limits = hs::measure_machine_limits(argc > 1 ? std::atoi(argv[1]) : 0);
  fmt::print(
      "{{\"threads\": {}, \"isa\": \"{}\", \"read_gb_s\": {:.3f}, \"gemm_gflop_s\": {:.3f}}}\n",
      limits.threads, hs::isa_name(hs::cpu_isa()), limits.read_gb_s, limits.gemm_gflop_s);
  return 0;
}
