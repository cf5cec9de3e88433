// An NVIDIA GPU behind the Device interface.
#pragma once

#include <memory>

#include "device/cuda_plugin.h"
#include "device/device.h"

namespace hs::cuda {

// Activations, weights and KV cache in options.dtype. Takes some 13 MiB of pinned host memory and 8
// MiB of the device (64 MiB from sm_90 on) besides what is allocated later. The options' index is
// the runtime's. Errors: those of list_devices(), kNotFound "cuBLAS missing", kUnsupported for a
// GPU older than sm_80, and what the driver says.
Result<std::unique_ptr<Device>> make_cuda_device(const CudaDeviceOptions& options);

}  // namespace hs::cuda
