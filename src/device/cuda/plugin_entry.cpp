// The one symbol of libhs-cuda.so.
#include <cstring>

#include "device/cuda/cuda_device.h"
#include "device/cuda/inventory.h"

extern "C" __attribute__((visibility("default"))) const hs::CudaPlugin* hs_cuda_plugin(
    uint32_t abi, const char* version) {
  static const hs::CudaPlugin plugin{.list_devices = hs::cuda::list_devices,
                                     .make_device = hs::cuda::make_cuda_device};
  if (abi != hs::kCudaPluginAbi || std::strcmp(version, HS_VERSION) != 0) return nullptr;
  return &plugin;
}
