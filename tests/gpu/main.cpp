// hs_gpu_check: measures the GPUs of this machine. Exit status 0: every target is met; 1: not; 3:
// there is no GPU that can be used, as the one line on stderr says.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "api/version.h"
#include "device/plugin_loader.h"
#include "gpu/check.h"

int main(int argc, char** argv) {
  CLI::App app("Measures the GPUs of this machine against what they could do");
  hs::gpu::Options options;
  std::string json;
  bool small = false;
  app.add_option("--model", options.model, "a checkpoint of full size");
  app.add_option("--demo", options.demo, "a small checkpoint, for answers")->required();
  app.add_option("--json", json, "where one line of JSON a measurement goes");
  app.add_flag("--small", small, "sizes that show whether it runs, not how fast");
  CLI11_PARSE(app, argc, argv);
  if (small) options.sizes = hs::gpu::small_sizes();
  options.progress = [](const std::string& part) { fmt::print(stderr, "gpu-check: {}\n", part); };
  constexpr int kNoGpu = 3;
  // Beside the folder of this program.
  const auto program = hs::program_folder();
  const std::filesystem::path places[] = {program.parent_path() / "libhs-cuda.so"};
  const auto plugin = hs::open_cuda_plugin(places, std::string(hs::version()));
  if (!plugin) {
    fmt::print(stderr, "gpu-check: {}\n", plugin.error().message);
    return kNoGpu;
  }
  const auto report = hs::gpu::check_gpus(**plugin, options);
  if (!report) {
    fmt::print(stderr, "gpu-check: nothing was measured: {}\n", report.error().message);
    return kNoGpu;
  }
  fmt::print("{}", report->table());
  if (!json.empty()) {
    std::ofstream file(json, std::ios::trunc);
    file << report->json_lines();
    if (!file.flush()) {
      fmt::print(stderr, "gpu-check: {} could not be written\n", json);
      return 1;
    }
  }
  return report->n_missed() == 0 ? 0 : 1;
}
