#include "gpu/check.h"

#include <utility>

namespace hs::gpu {

// Vicuna-7B is the language model of LLaVA-1.5-7B; the other is that of Qwen2.5-VL-7B.
Sizes full_sizes() {
  return {.layers = {{"Vicuna-7B", 4096, 11008, 32, 32, 128, 32064},
                     {"Qwen2.5-7B", 3584, 18944, 28, 4, 128, 152064}},
          .cold_bytes = size_t{512} << 20,
          .copy_bytes = size_t{64} << 20,
          .gemm_dim = 8192,
          .decode_rows = {1, 2, 4, 8, 16, 32},
          .decode_contexts = {{1, 512}, {1, 4096}, {1, 32768}, {8, 512}, {8, 4096}, {64, 512}},
          .prefill_tokens = {576, 2048, 8192},
          .step_tokens = 2048,
          .step_context = 512,
          .pictures = {1, 4, 16},
          .tier_requests = 48,
          .seconds = 0.15,
          .calls_max = 4096};
}

Sizes small_sizes() {
  return {.layers = {{"a small model", 64, 96, 4, 2, 16, 300}},
          .cold_bytes = size_t{32} << 10,
          .copy_bytes = size_t{64} << 10,
          .gemm_dim = 96,
          .decode_rows = {1, 3, 20},
          .decode_contexts = {{1, 20}, {2, 40}},
          .prefill_tokens = {24},
          .step_tokens = 24,
          .step_context = 8,
          .pictures = {1, 2},
          .tier_requests = 6,
          .seconds = 0,
          .calls_max = 1};
}

Result<Report> check_gpus(const CudaPlugin& plugin, const Options& options) {
  const auto devices = plugin.list_devices();
  if (!devices) return std::unexpected(devices.error());
  Report report;
  Rates rates;
  const Bench bench{
      .make = [&](int index,
                  bool graphs) { return plugin.make_device({.index = index, .graphs = graphs}); },
      .devices = *devices,
      .options = options,
      .rates = rates,
      .report = report};
  struct Part {
    std::string_view name;
    Status (*check)(const Bench&);
    bool needs_model = false;
  };
  constexpr Part kParts[] = {{"machine", check_rates},       {"answers", check_answers},
                             {"products", check_products},   {"attention", check_attention},
                             {"small ops", check_small_ops}, {"model", check_model, true},
                             {"links", check_links},         {"tiers", check_tiers}};
  for (const Part& part : kParts) {
    if (options.progress) options.progress(std::string(part.name));
    if (part.needs_model && options.model.empty()) {
      report.miss(part.name, "no checkpoint was given (--model)");
      continue;
    }
    const Status done = part.check(bench);
    if (done) continue;
    // Nothing can be compared without the machine's rates, or with a device that is lost.
    if (part.check == check_rates || done.error().code == "device_lost") {
      return std::unexpected(done.error());
    }
    report.miss(part.name, done.error().message);
  }
  return report;
}

}  // namespace hs::gpu
