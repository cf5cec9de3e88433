// What this machine can do at best: the yardstick that every other number of a bench is held
// against.
#pragma once

#include "bench/timing.h"
#include "kernels/team.h"

namespace hs {

struct MachineLimits {
  int threads = 0;
  double read_gb_s = 0;    // reading memory far larger than the caches, all threads
  double read_1_gb_s = 0;  // the same, one thread
  double fma_gflop_s = 0;  // independent float32 multiply-adds in registers, all threads
  double fma_1_gflop_s = 0;
  double gemm_gflop_s =
      0;  // linear layers of 512 rows at the shapes of a 135M Llama, bf16 weights, all threads
};

// Takes about two seconds and 256 MiB. threads 0: one for each core of the process. Medians over
// some rounds.
MachineLimits measure_machine_limits(int threads);

// Bytes of `memory` each worker reads once per call, in GB/s over `rounds` calls.
Samples measure_read_rate(const std::byte* memory, size_t bytes, int rounds, Team& team,
                          BenchClock clock = BenchClock::kWall);
// Rate of float32 multiply-adds without memory, GFLOP/s.
Samples measure_fma_rate(int rounds, Team& team, BenchClock clock = BenchClock::kWall);

}  // namespace hs
