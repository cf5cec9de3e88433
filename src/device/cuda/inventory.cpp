#include "device/cuda/inventory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

#include "device/cuda/blas_lt_api.h"

namespace hs::cuda {
namespace {

constexpr int kComputeMajorMin = 8;  // Ampere: cp.async, bfloat16 on tensor cores

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// NVIDIA's drivers by the newest CUDA they run; minor versions within a major are compatible.
const char* first_driver(int major) {
  return major >= 13 ? "580" : "525";
}

Status check_driver() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) {
    cudaGetLastError();
    driver = 0;
  }
  if (driver == 0)
    return fail(ErrorKind::kNotFound,
                "no NVIDIA device: the driver is not installed (libcuda.so.1); install NVIDIA's "
                "driver, or run with --device cpu");
  constexpr int kMajor = CUDART_VERSION / 1000;
  if (driver / 1000 >= kMajor) return {};
  return fail(ErrorKind::kUnsupported,
              fmt::format("driver too old: have one for CUDA {}, need CUDA {}; install NVIDIA "
                          "driver {} or newer, or run with --device cpu",
                          version_text(driver), version_text(kMajor * 1000), first_driver(kMajor)));
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

// Of one multiprocessor's tensor cores: bfloat16, summed in float32, without sparsity.
double operations_per_clock(int major, int minor) {
  if (major == 8) return minor == 0 ? 2048 : 512;
  if (major >= 12) return 512;
  return major == 9 ? 4096 : 8192;
}

int attribute(cudaDeviceAttr name, int device) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, name, device) == cudaSuccess) return value;
  cudaGetLastError();
  return 0;
}

DeviceInfo describe(int index, const cudaDeviceProp& properties) {
  DeviceInfo info{.id = {DeviceId::Kind::kCuda, index},
                  .name = properties.name,
                  .uuid = uuid_text(properties.uuid),
                  .pci = fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID,
                                     properties.pciBusID, properties.pciDeviceID),
                  .memory_bytes = properties.totalGlobalMem,
                  .free_bytes = properties.totalGlobalMem,
                  .basis = "published"};
  // Kilohertz; memory moves two words a clock.
  const double clock = attribute(cudaDevAttrClockRate, index) * 1e3;
  const double memory_clock = attribute(cudaDevAttrMemoryClockRate, index) * 1e3;
  info.gflops = 1e-9 * clock * properties.multiProcessorCount *
                operations_per_clock(properties.major, properties.minor);
  info.bandwidth_gbs = 2e-9 * memory_clock * properties.memoryBusWidth / 8;
  size_t free = 0;
  size_t total = 0;
  if (cudaSetDevice(index) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess) {
    info.free_bytes = free;
  } else {
    cudaGetLastError();
  }
  return info;
}

}  // namespace

Result<std::vector<DeviceInfo>> list_devices() {
  if (Status driver = check_driver(); !driver) return std::unexpected(std::move(driver.error()));
  int n = 0;
  const cudaError_t counted = cudaGetDeviceCount(&n);
  if (counted != cudaSuccess) cudaGetLastError();
  if (counted == cudaErrorInsufficientDriver)
    return fail(ErrorKind::kUnsupported,
                fmt::format("driver too old: it does not run CUDA {}; install NVIDIA driver {} or "
                            "newer, or run with --device cpu",
                            version_text(CUDART_VERSION), first_driver(CUDART_VERSION / 1000)));
  if (counted != cudaSuccess && counted != cudaErrorNoDevice)
    return fail(ErrorKind::kUnavailable,
                fmt::format("no NVIDIA device: {} ({}); look at nvidia-smi, or run with --device "
                            "cpu",
                            cudaGetErrorString(counted), cudaGetErrorName(counted)));
  std::vector<DeviceInfo> devices;
  std::string too_old;
  for (int index = 0; index < n; ++index) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) {
      cudaGetLastError();
      continue;
    }
    if (properties.major >= kComputeMajorMin) {
      devices.push_back(describe(index, properties));
    } else {
      too_old += fmt::format("{}{} (sm_{}{})", too_old.empty() ? "" : ", ", properties.name,
                             properties.major, properties.minor);
    }
  }
  if (devices.empty())
    return fail(ErrorKind::kNotFound,
                too_old.empty()
                    ? "no NVIDIA device: the driver lists none; look at nvidia-smi and "
                      "CUDA_VISIBLE_DEVICES, or run with --device cpu"
                    : fmt::format("no NVIDIA device of sm_80 or newer: there is {}; run with "
                                  "--device cpu",
                                  too_old));
  if (const auto blas = load_blas_lt(); !blas) return std::unexpected(blas.error());
  return devices;
}

}  // namespace hs::cuda
