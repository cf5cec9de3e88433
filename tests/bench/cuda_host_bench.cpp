// How much work of the host a decode step is on the CUDA backend: an engine on an emulated card
// whose kernels do nothing. What is left is the engine, the model's calls, and the fake runtime,
// which stands for the real one's share.
//
//   hs_bench_cuda_host MODEL   a line a batch size
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/bench_load.h"
#include "app/bench_play.h"
#include "cuda_emu/fake_runtime.h"
#include "device/cuda/cuda_device.h"
#include "engine/topology.h"

namespace hs {
namespace {

constexpr int32_t kTokens = 128;  // of each answer

Result<std::string> measure(const std::string& path, bool graphs, int32_t n_seqs) {
  const cuda_emu::FakeMachine machine(
      {.devices = {cuda_emu::a100()}, .order = cuda_emu::Order::kEager, .runs_kernels = false});
  auto device = cuda::make_cuda_device({.index = 0, .graphs = graphs});
  if (!device) return std::unexpected(device.error());
  auto model = load_model({.path = path, .language_devices = {device->get()}});
  if (!model) return std::unexpected(model.error());
  WakeUp wake;
  const SystemClock clock;
  const EngineConfig config{
      .max_model_len = 512, .max_num_seqs = 64, .kv_blocks = 64 * 32, .prefix_cache = false};
  auto engine = Engine::create(*model, make_topology(*model, **device), config, clock,
                               [&wake] { wake.notify(); });
  if (!engine) return std::unexpected(engine.error());
  const auto traffic = make_bench_traffic(
      *model->prompts,
      {.requests = n_seqs, .picture_requests = 0, .prompt_tokens = 4, .output_tokens = kTokens});
  if (!traffic) return std::unexpected(traffic.error());
  const auto played = play(**engine, clock, wake, traffic->requests, {});
  if (!played) return std::unexpected(played.error());
  // Steps of the whole batch: from one's begin to the next one's, and inside of the device's calls.
  const std::vector<TimelineEntry> steps = (*engine)->timeline().front().entries;
  std::vector<double> whole;
  std::vector<double> inside;
  for (size_t i = 1; i < steps.size(); ++i) {
    if (steps[i - 1].n_sampled != n_seqs || steps[i].n_sampled != n_seqs) continue;
    whole.push_back(static_cast<double>(steps[i].started_us - steps[i - 1].started_us));
    inside.push_back(static_cast<double>(steps[i].finished_us - steps[i].started_us));
  }
  if (whole.empty()) return fail(ErrorKind::kInternal, "no step had all sequences");
  const auto median = [](std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  return fmt::format(
      "{:>3} sequences, {}: {:6.0f} us from step to step, {:6.0f} us in the device's calls", n_seqs,
      graphs ? "recorded" : "op by op", median(whole), median(inside));
}

}  // namespace
}  // namespace hs

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : "models/demo/llava";
  for (const bool graphs : {true, false}) {
    for (const int32_t n_seqs : {1, 8, 32, 64}) {
      const auto line = hs::measure(path, graphs, n_seqs);
      if (!line) {
        fmt::print(stderr, "{}\n", line.error().message);
        return 1;
      }
      fmt::print("{}\n", *line);
    }
  }
  return 0;
}
