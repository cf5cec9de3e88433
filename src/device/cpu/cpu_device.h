// The CPU backend: a real device, whose stream is a team of threads.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"

namespace hs {

struct CpuDeviceOptions {
  int index = 0;
  int threads = 0;  // 0: one for each core of `cores`, or of the process
  // Pin the team to these cores; empty: not pinned. The initializer is for designated ones, where
  // GCC asks for it.
  std::vector<int> cores = {};  // NOLINT(readability-redundant-member-init)
};

Result<std::unique_ptr<Device>> make_cpu_device(const CpuDeviceOptions& options);

}  // namespace hs
