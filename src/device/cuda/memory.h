// Device and pinned host memory as Buffers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "device/cuda/context.h"
#include "device/device.h"

namespace hs::cuda {

// 256-byte aligned memory of the device, zeroed in the order of `stream`, for which it waits. Plain
// memory: peers that were enabled, or will be, reach it. kResourceExhausted says how much is free.
Result<Buffer> allocate_device(Context& context, size_t bytes, cudaStream_t stream);
// Host memory that every device copies to and from without a copy in between; zeroed.
Result<Buffer> allocate_pinned(Context& context, size_t bytes);

}  // namespace hs::cuda
