// The CPU backend: a real device, whose stream is a team of threads.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"

namespace hs {

struct CpuDeviceOptions {
  int index = 0;
  int threads = 0;              // 0: one for each core of `cores`, or of the process
  std::vector<int> cores = {};  // pin the team to these cores; empty: not pinned
};

Result<std::unique_ptr<Device>> make_cpu_device(const CpuDeviceOptions& options);

}  // namespace hs
