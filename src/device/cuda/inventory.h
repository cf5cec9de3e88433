// The GPUs that can be used here, or why there is none.
#pragma once

#include <vector>

#include "base/status.h"
#include "device/device_info.h"

namespace hs::cuda {

// See CudaPlugin::list_devices (device/cuda_plugin.h).
Result<std::vector<DeviceInfo>> list_devices();

}  // namespace hs::cuda
