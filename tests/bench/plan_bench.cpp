// What the scheduler and the simulator cost on one core, in CPU time, so that other work on the
// machine counts little: hs_bench_plan [REQUESTS].
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "plan/arms.h"
#include "plan/shipped_data.h"
#include "plan/simulator.h"

namespace {

double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// Sequences that only decode, with more waiting behind them: next_step() and step_done().
void bench_scheduler(int32_t n_running) {
  hs::Scheduler scheduler({.block_size = 16,
                           .n_blocks = 64 * (n_running + 1),
                           .max_model_len = 4096,
                           .max_num_seqs = n_running,
                           .max_num_batched_tokens = 8192});
  for (hs::RequestId id = 1; id <= static_cast<hs::RequestId>(n_running) + 64; ++id) {
    const std::vector<int32_t> prompt(100, static_cast<int32_t>(id));
    if (!scheduler.arrived({.id = id,
                            .arrival = id,
                            .prompt = prompt,
                            .images = {},
                            .n_choices = 1,
                            .max_tokens = 800})) {
      std::abort();
    }
  }
  hs::StepOrder order;
  std::vector<int32_t> tokens;
  std::vector<double> times;
  for (int32_t step = 0; step < 600; ++step) {
    const double start = cpu_us();
    if (!scheduler.next_step(order)) std::abort();
    tokens.clear();
    for (const auto& item : order.items) {
      if (item.sample) tokens.push_back(step);
    }
    scheduler.step_done(tokens);
    if (scheduler.n_running() == n_running && order.n_tokens == n_running) {
      times.push_back(cpu_us() - start);
    }
  }
  std::ranges::sort(times);
  fmt::print("scheduler step, {} running, prefix cache on: p50 {:.1f} us, p99 {:.1f} us\n",
             n_running, times[times.size() / 2], times[times.size() * 99 / 100]);
}

void bench_simulator(int64_t n_requests) {
  const auto catalogue = hs::read_catalogue(hs::shipped_cards_toml(), "cards.toml").value();
  const auto shapes = hs::read_model_shapes(hs::shipped_models_toml(), "models.toml").value();
  const hs::ModelShape& shape = *std::ranges::find(shapes, "qwen2.5-vl-7b", &hs::ModelShape::name);
  const hs::Workload workload = hs::uniform_workload({{1024}, 32, 128}, 0.5);
  hs::SimOptions options;
  options.link = catalogue.link;
  options.n_requests = n_requests;
  const auto device = [&](const char* card) {
    return hs::DeviceModel(shape, catalogue.card(card).value(), 1, catalogue.efficiency,
                           catalogue.link);
  };
  const hs::ArmModel model(shape, workload, options.limits, device("rtx4090"), device("a100-80"),
                           options.link);
  for (const auto kind :
       {hs::ArmKind::kDatacenter, hs::ArmKind::kTwoTiers, hs::ArmKind::kStealing}) {
    const double start = cpu_us();
    const auto result = hs::simulate(model.arm(kind, {2, 2}), shape, workload, options);
    const double seconds = (cpu_us() - start) / 1e6;
    if (!result) std::abort();
    fmt::print("simulate {}: {} requests in {:.1f} s, {:.1f} us a step of {:.0f} sequences\n",
               hs::to_string(kind), result->n_finished, seconds,
               seconds * 1e6 / static_cast<double>(result->steps),
               static_cast<double>(result->step_parts) / static_cast<double>(result->steps));
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench_scheduler(64);
  bench_scheduler(256);
  bench_simulator(argc > 1 ? std::atoll(argv[1]) : 1'000'000);
  return 0;
}
