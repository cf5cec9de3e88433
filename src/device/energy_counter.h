// How much energy devices have drawn, where the machine tells.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "device/nvml.h"

namespace hs {

// One thread at a time.
class EnergyCounter {
 public:
  virtual ~EnergyCounter() = default;
  // Since some start; never falls. Read at least once a minute.
  virtual Result<double> joules() = 0;
};

// All CPU packages of the machine, by RAPL: whatever program it is that they work for. kNotFound
// where the kernel offers none; kIo where this user may not read it (root's only, by default).
Result<std::unique_ptr<EnergyCounter>> open_rapl(
    const std::filesystem::path& root = "/sys/class/powercap");

// One GPU, by NVML. kUnsupported: it has no counter.
Result<std::unique_ptr<EnergyCounter>> open_gpu_energy(std::shared_ptr<Nvml> nvml, std::string pci);

}  // namespace hs
