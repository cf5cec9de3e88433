// `heteroserve bench --calibrate`: what this machine's devices take, as a profile.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "app/calibrate.h"
#include "app/commands.h"
#include "app/plan_inputs.h"
#include "app/served_engine.h"

namespace hs {
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
  const std::string text = profile_toml(*profile);
  if (!options.out.empty()) return write_text_file(options.out, text, "--out");
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

}  // namespace hs
