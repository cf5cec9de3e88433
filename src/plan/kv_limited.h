// Language work of a device whose cache, not --max-num-seqs, sets how many sequences run side by
// side. Nothing is averaged beforehand: blocks are handed out step by step under the scheduler's
// rules (engine/scheduler.h) to requests that always wait, since what decides is how contexts
// grow, are rounded up to blocks and push the youngest out. Requests alone: no pictures, queues,
// devices or clock.
#pragma once

#include <cstdint>

#include "plan/device_model.h"
#include "plan/serving_model.h"
#include "plan/workload.h"

namespace hs {

// `part`: kWhole or kDecode; a request of kDecode comes with its prompt's keys and values.
// REQUIRES: the longest request fits n_blocks.
LanguageTime kv_limited_time(const DeviceModel& device, const Workload& workload,
                             const ServingLimits& limits, LanguagePart part, int64_t n_blocks);

}  // namespace hs
