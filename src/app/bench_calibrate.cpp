// `heteroserve bench --calibrate`: what this machine's devices take, as a profile.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "app/calibrate.h"
#include "app/commands.h"
#include "app/plan_inputs.h"
#include "app/served_engine.h"
#include "kernels/isa.h"

namespace hs {
namespace {

std::string utc_now() {
  const auto now =
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count());
}

// "AMD EPYC, avx2, 2 device(s)"
std::string machine(const std::vector<std::unique_ptr<Device>>& devices) {
  std::string name = "unknown processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    name = line.substr(colon + 2);
    break;
  }
  std::string told = fmt::format("{}, {}", name, isa_name(cpu_isa()));
  for (const auto& device : devices) told += fmt::format("; {}", device->description());
  return told;
}

}  // namespace

Status bench_calibrate(const Config& config, const BenchOptions& options) {
  auto opened = open_devices(config);
  if (!opened) return std::unexpected(opened.error());
  std::vector<Device*> devices;
  for (const auto& device : *opened) devices.push_back(device.get());
  CalibrationOptions what;
  what.model_path = config.model;
  what.dtype = config.dtype;
  what.block_size = config.block_size;
  what.max_num_seqs = config.max_num_seqs;
  what.max_num_batched_tokens = config.max_num_batched_tokens;
  what.max_encode_patches = config.max_encode_patches;
  what.kv_blocks = config.kv_blocks;
  what.verify_transfers = config.verify_transfers;
  what.seconds = options.seconds;
  what.progress = [](const std::string& told) { fmt::print(stderr, "{}\n", told); };
  auto profile = calibrate(devices, what);
  if (!profile) return std::unexpected(profile.error());
  profile->date = utc_now();
  profile->machine = machine(*opened);
  const std::string text = profile_toml(*profile);
  if (!options.out.empty()) return write_text_file(options.out, text, "--out");
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

}  // namespace hs
