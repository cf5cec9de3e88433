// What the CUDA plug-in gives the program, which itself knows nothing of CUDA. Both are built from
// the same sources by the same compiler; the version in the plug-in's one entry point says so.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "device/device.h"
#include "device/device_info.h"

namespace hs {

struct CudaDeviceOptions {
  int index = 0;
  DType dtype = DType::kBF16;  // of activations, weights and KV cache: kBF16 or kF16
  bool graphs = true;          // record decode steps
};

struct CudaPlugin {
  // GPUs that can be used, in the order of the PCI bus. Rates are published ones, from clocks and
  // widths. Errors, each one line that says what to do: kNotFound "no NVIDIA device", kUnsupported
  // "driver too old", kNotFound "cuBLAS missing". Any thread.
  Result<std::vector<DeviceInfo>> (*list_devices)() = nullptr;
  Result<std::unique_ptr<Device>> (*make_device)(const CudaDeviceOptions& options) = nullptr;
};

// Changes with every change of an interface that crosses the border; the program's version counts
// too.
inline constexpr uint32_t kCudaPluginAbi = 1;

// The entry point: null unless `abi` and `version` are the plug-in's own.
//   extern "C" const CudaPlugin* hs_cuda_plugin(uint32_t abi, const char* version);
using CudaPluginEntry = const CudaPlugin* (*)(uint32_t abi, const char* version);
inline constexpr char kCudaPluginSymbol[] = "hs_cuda_plugin";

}  // namespace hs
