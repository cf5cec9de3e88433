// A whole model: decode steps, prompts and pictures against what their bytes and operations would
// take.
#include <fmt/format.h>

#include <algorithm>

#include "app/bench_load.h"
#include "app/calibrate_device.h"
#include "gpu/check.h"
#include "gpu/op_bench.h"

namespace hs::gpu {
namespace {

// One load of the checkpoint. Members go in reverse order.
struct Loaded {
  std::unique_ptr<Device> device;
  CalibrationOptions options;
  Model model;
  std::unique_ptr<CalibrationDevice> work;
};

Result<std::unique_ptr<Loaded>> load(const Bench& bench, bool graphs) {
  auto device = bench.make(bench.devices.front().id.index, graphs);
  if (!device) return std::unexpected(device.error());
  auto loaded = std::make_unique<Loaded>();
  loaded->device = std::move(*device);
  const Sizes& sizes = bench.options.sizes;
  auto model = load_model({.path = bench.options.model,
                           .max_step_tokens = sizes.step_tokens,
                           .max_encode_images = sizes.pictures.back(),
                           .max_model_len = std::max(sizes.step_tokens, sizes.step_context + 1),
                           .vision_devices = {loaded->device.get()},
                           .language_devices = {loaded->device.get()}});
  if (!model) return std::unexpected(model.error());
  loaded->model = std::move(*model);
  loaded->options.max_encode_images = sizes.pictures.back();
  loaded->work =
      std::make_unique<CalibrationDevice>(*loaded->device, loaded->model, 0, loaded->options);
  const int32_t per_seq = (sizes.step_context + 1) / loaded->options.block_size + 1;
  const int32_t for_prompt = sizes.step_tokens / loaded->options.block_size + 1;
  const int64_t n_blocks =
      std::max(int64_t{per_seq} * sizes.decode_rows.back(), int64_t{for_prompt});
  if (Status ready = loaded->work->prepare(n_blocks); !ready) {
    return std::unexpected(ready.error());
  }
  return loaded;
}

// Weights and cached tokens that a decode step reads.
double step_bytes(const ModelSpec& spec, int32_t n_seqs, int32_t context) {
  const double kv_token = static_cast<double>(spec.kv_block_bytes()) / spec.kv_layout.block_size;
  return static_cast<double>(spec.step_weight_bytes) + kv_token * n_seqs * context;
}

Status measure_decode(const Bench& bench, Loaded& loaded, bool graphs) {
  const Sizes& sizes = bench.options.sizes;
  for (const int32_t n : sizes.decode_rows) {
    const MeasuredStep what{.n_seqs = n, .n_before = sizes.step_context, .sampled = true};
    const auto seconds = seconds_of(sizes, [&] { return loaded.work->step(what); });
    if (!seconds) return std::unexpected(seconds.error());
    const std::string name =
        fmt::format("decode step, {} sequence(s), {}", n, graphs ? "recorded" : "op by op");
    bench.report.add("model", name, *seconds * 1e3, "ms");
    if (!graphs) continue;
    bench.report.add("model", fmt::format("{} tokens a second", name), n / *seconds, "1/s");
    const double bytes = step_bytes(loaded.model.spec, n, sizes.step_context + 1);
    constexpr double kTimesMax = 1.10;
    bench.report.at_most("model", name + ", of bytes / bandwidth",
                         *seconds / (bytes * 1e-9 / bench.rates.copy_gbs), kTimesMax);
  }
  return {};
}

Status measure_prefill(const Bench& bench, Loaded& loaded) {
  const Sizes& sizes = bench.options.sizes;
  const MeasuredStep what{.n_seqs = 1, .n_tokens = sizes.step_tokens, .sampled = true};
  const auto seconds = seconds_of(sizes, [&] { return loaded.work->step(what); });
  if (!seconds) return std::unexpected(seconds.error());
  const std::string name = fmt::format("prompt of {} tokens", sizes.step_tokens);
  const double weights = static_cast<double>(loaded.model.spec.prefill_weight_bytes) / 2;
  const double tflops = 2 * weights * sizes.step_tokens * 1e-12 / *seconds;
  bench.report.add("model", name, *seconds * 1e3, "ms");
  bench.report.add("model", name + ", its products", tflops, "TFLOP/s");
  constexpr double kShareMin = 0.65;
  bench.report.at_least("model", name + ", products of GEMM rate", tflops / bench.rates.gemm_tflops,
                        kShareMin);
  return {};
}

Status measure_pictures(const Bench& bench, Loaded& loaded) {
  const Sizes& sizes = bench.options.sizes;
  if (!loaded.model.spec.has_vision) return {};
  BenchRandom random(1);
  constexpr int32_t kSide = 336;
  const auto prompt = noise_prompt(*loaded.model.prompts, 1, kSide, kSide, "a", random);
  if (!prompt) return std::unexpected(prompt.error());
  const auto& picture = prompt->images.front();
  for (const int32_t n : sizes.pictures) {
    const auto seconds = seconds_of(sizes, [&] { return loaded.work->encode(n, picture); });
    if (!seconds) return std::unexpected(seconds.error());
    const std::string name = fmt::format("{} picture(s)", n);
    const double rows = static_cast<double>(n) * picture->grid_height * picture->grid_width;
    const double weights = static_cast<double>(loaded.model.spec.tower_bytes) / 2;
    const double tflops = 2 * weights * rows * 1e-12 / *seconds;
    bench.report.add("model", name, *seconds * 1e3, "ms");
    constexpr double kShareMin = 0.60;
    if (n == sizes.pictures.back())
      bench.report.at_least("model", name + ", products of GEMM rate",
                            tflops / bench.rates.gemm_tflops, kShareMin);
    else
      bench.report.add("model", name + ", products of GEMM rate", tflops / bench.rates.gemm_tflops,
                       "share");
  }
  return {};
}

}  // namespace

Status check_model(const Bench& bench) {
  for (const bool graphs : {true, false}) {
    auto loaded = load(bench, graphs);
    if (!loaded) return std::unexpected(loaded.error());
    if (Status s = measure_decode(bench, **loaded, graphs); !s) return s;
    if (!graphs) continue;
    if (Status s = measure_prefill(bench, **loaded); !s) return s;
    if (Status s = measure_pictures(bench, **loaded); !s) return s;
  }
  return {};
}

}  // namespace hs::gpu
