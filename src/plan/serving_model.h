// How long a request keeps a device busy when it serves as many as it can: the closed form of what
// the simulator does, without queues between devices.
#pragma once

#include <cstdint>

#include "plan/device_model.h"
#include "plan/workload.h"

namespace hs {

// Bounds of a server, named as its settings.
struct ServingLimits {
  int32_t max_num_seqs = 64;
  int32_t max_num_batched_tokens = 2048;
  int32_t max_encode_images = 4;
  int32_t block_size = 16;
  int32_t embedding_rows = 8192;
  int32_t max_queue = 256;
};

enum class LanguagePart : uint8_t {
  kWhole,
  kPrefill,  // the prompt and the first token
  kDecode,   // the others
};

struct LanguageTime {
  bool fits = false;  // weights, and at least one request
  double us = 0;      // of a request; infinity when it does not fit
  double batch = 0;   // sequences in a step, on average
  double step_us = 0;
  int64_t kv_tokens = 0;
};

// Mean over the workload's requests. `tower`: the device also holds the vision tower.
double vision_us(const DeviceModel& device, const Workload& workload);
LanguageTime language_time(const DeviceModel& device, const Workload& workload,
                           const ServingLimits& limits, LanguagePart part, bool tower);

struct WorkloadMeans {
  double prompt_tokens = 0;
  double image_rows = 0;  // of a request, all pictures
  double output_tokens = 0;
};
WorkloadMeans means(const Workload& workload);

}  // namespace hs
