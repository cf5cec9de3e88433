// NVIDIA's management library, opened at run time: the driver brings it, and nothing here needs it.
// Works beside, and without, CUDA. Source: NVML API reference, the functions named in nvml.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace hs {

struct NvmlGpu {
  std::string name;
  std::string uuid;
  std::string pci;  // "00000000:41:00.0"
  size_t memory_bytes = 0;
  size_t free_bytes = 0;
  int cc_major = 0;  // compute capability
  int cc_minor = 0;
  // What the driver does not tell is -1.
  int pcie_generation = -1;
  int pcie_generation_max = -1;
  int pcie_lanes = -1;
  int pcie_lanes_max = -1;
  int persistence = -1;  // 1: on
  int ecc = -1;          // 1: on
  int power_limit_watts = -1;
  int power_limit_default_watts = -1;
};

// Any thread; one at a time.
class Nvml {
 public:
  // kNotFound: there is no such library here; kUnavailable: it is there and does not work (no
  // driver, another version than the kernel's module), in the driver's words.
  static Result<std::shared_ptr<Nvml>> open(const std::string& library = "libnvidia-ml.so.1");
  virtual ~Nvml() = default;

  virtual Result<std::string> driver_version() = 0;  // "580.65.06"
  virtual Result<int> cuda_version() = 0;            // that the driver has: 13000 is 13.0
  virtual Result<std::vector<NvmlGpu>> gpus() = 0;
  // Drawn since the driver was loaded; `pci` as of NvmlGpu, or with a shorter domain.
  virtual Result<double> joules(const std::string& pci) = 0;
};

}  // namespace hs
