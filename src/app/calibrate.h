// Measures devices through the layers that serve: towers, language models, links and the engine
// around them. What takes how long becomes a profile that plan and simulate read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "plan/profile.h"

namespace hs {

struct CalibrationOptions {
  std::string model_path;
  DType dtype = DType::kBF16;
  int32_t block_size = 16;
  int32_t max_num_seqs = 64;
  int32_t max_num_batched_tokens = 512;
  int32_t max_encode_images = 4;
  int32_t max_encode_patches = 16384;
  int32_t kv_blocks = 0;  // of each device; 0: what the longest measured step needs
  bool verify_transfers = true;
  double seconds = 60;  // about, for all of it; every point is measured three times at least
  std::function<void(const std::string&)> progress = {};
};

// Loads a tower and a language model on each device, one after another of which is measured alone,
// then all at once. The calling thread; the devices run on threads of this call.
// Errors: those of loading and of the devices.
Result<Profile> calibrate(const std::vector<Device*>& devices, const CalibrationOptions& options);

}  // namespace hs
