// The GPUs that the CUDA plug-in offers, as far as --device asks for some.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/config.h"
#include "base/status.h"
#include "device/cuda_plugin.h"
#include "device/device_info.h"

namespace hs {

struct Gpus {
  const CudaPlugin* plugin = nullptr;  // null: there is none
  std::vector<DeviceInfo> devices;     // ascending by index; empty without a plug-in
  std::string why_none;                // one line, where devices is empty
  bool is_installed = false;           // the plug-in is there, whatever it says
};

inline constexpr std::string_view kNoGpu = "no_gpu";

// Opens the plug-in where it is installed. kCpu: looks for nothing. kAuto: what is wrong stands in
// why_none. kCuda: that is the error, kInvalidArgument with code kNoGpu, exit status kExitConfig.
// Any thread.
Result<Gpus> find_gpus(DeviceChoice choice);

}  // namespace hs
