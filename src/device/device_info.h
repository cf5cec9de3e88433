// What is known of a device before it is used: enough to name it and to rank it.
#pragma once

#include <cstddef>
#include <string>

#include "device/device.h"

namespace hs {

struct DeviceInfo {
  DeviceId id;
  std::string name;  // the maker's, for people
  std::string uuid;  // "GPU-1f2e..."; empty for a CPU
  std::string pci;   // "0000:41:00.0"; empty for a CPU
  size_t memory_bytes = 0;
  size_t free_bytes = 0;
  double gflops = 0;         // 10^9 operations a second: float32 on a CPU, bfloat16 on a GPU
  double bandwidth_gbs = 0;  // reading its memory, 10^9 bytes a second
  std::string basis;         // where the two rates come from: "measured", "published"
};

}  // namespace hs
