#include "bench/machine_limits.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "device/cpu/cpu_rates.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/host_memory.h"
#include "kernels/linear.h"

namespace hs {
namespace {

constexpr size_t kReadItem = size_t{256} << 10;  // bytes

// 512 rows through the four kinds of matrices of a 135M Llama (d 576, 3 KV heads of 64, ff 1536),
// in GFLOP/s.
double gemm_rate(int rounds, Team& team) {
  struct Shape {
    int64_t in_dim, out_dim;
  };
  constexpr int64_t kRows = 512;
  constexpr Shape kShapes[] = {{576, 960}, {576, 576}, {576, 3072}, {1536, 576}};
  std::vector<std::vector<float>> weights;
  for (const Shape& shape : kShapes) {
    // Packed bf16 ones and a little: any finite numbers cost the same.
    weights.emplace_back(packed_weight_bytes(DType::kBF16, shape.out_dim, shape.in_dim) / 4 + 16);
    std::memset(weights.back().data(), 0x3F, weights.back().size() * 4);
  }
  std::vector<float> x(kRows * 3072, 0.5F);
  std::vector<float> y(kRows * 3072);
  double flops = 0;
  for (const Shape& shape : kShapes) {
    flops += 2.0 * kRows * static_cast<double>(shape.in_dim * shape.out_dim);
  }
  std::vector<double> rates;
  for (int round = 0; round < rounds; ++round) {
    rates.push_back(flops * 1e-9 / time_once([&] {
                      for (size_t i = 0; i < std::size(kShapes); ++i) {
                        const uintptr_t start = reinterpret_cast<uintptr_t>(weights[i].data());
                        const auto* data = reinterpret_cast<const void*>((start + 63) / 64 * 64);
                        linear_cpu(
                            {.x = x.data(),
                             .weight = {DType::kBF16, kShapes[i].out_dim, kShapes[i].in_dim, data},
                             .y = y.data(),
                             .n_rows = kRows,
                             .x_stride = kShapes[i].in_dim,
                             .y_stride = kShapes[i].out_dim},
                            team);
                      }
                    }));
  }
  return summarize(std::move(rates)).median;
}

}  // namespace

Samples measure_read_rate(const std::byte* memory, size_t bytes, int rounds, Team& team,
                          BenchClock clock) {
  const auto n_items = static_cast<int64_t>(bytes / kReadItem);
  std::vector<uint64_t> results(static_cast<size_t>(team.size()) * 8);
  std::vector<double> rates;
  for (int round = 0; round < rounds; ++round) {
    const double seconds = time_once(
        [&] {
          team.run(n_items, [&](int64_t item, int worker) {
            const std::byte* p = memory + static_cast<size_t>(item) * kReadItem;
            results[static_cast<size_t>(worker) * 8] ^= read_streams(p, kReadItem);
          });
        },
        clock);
    rates.push_back(static_cast<double>(n_items) * kReadItem * 1e-9 / seconds);
  }
  for (uint64_t& result : results) __asm__ volatile("" : : "r"(result));
  return summarize(std::move(rates));
}

Samples measure_fma_rate(int rounds, Team& team, BenchClock clock) {
  std::vector<double> rates;
  for (int round = 0; round < rounds; ++round) {
    const int64_t n_items = 16 * int64_t{team.size()};
    const double seconds =
        time_once([&] { team.run(n_items, [](int64_t, int) { fma_burst(); }); }, clock);
    rates.push_back(fma_burst() * static_cast<double>(n_items) * 1e-9 / seconds);
  }
  return summarize(std::move(rates));
}

MachineLimits measure_machine_limits(int threads) {
  if (threads <= 0) threads = static_cast<int>(process_cores().size());
  constexpr size_t kBytes = size_t{256} << 20;
  constexpr int kRounds = 9;
  auto* memory = static_cast<std::byte*>(allocate_host_memory(kBytes));
  HS_CHECK(memory != nullptr);
  std::memset(memory, 1, kBytes);  // untouched pages would all be one and the same page of zeros
  CpuTeam alone({.threads = 1, .name = "limits"});
  CpuTeam all({.threads = threads, .name = "limits"});
  const MachineLimits limits{
      .threads = threads,
      .read_gb_s = measure_read_rate(memory, kBytes, kRounds, all).median,
      .read_1_gb_s = measure_read_rate(memory, kBytes, kRounds, alone).median,
      .fma_gflop_s = measure_fma_rate(kRounds, all).median,
      .fma_1_gflop_s = measure_fma_rate(kRounds, alone).median,
      .gemm_gflop_s = gemm_rate(kRounds, all),
  };
  free_host_memory(memory, kBytes);
  return limits;
}

}  // namespace hs
