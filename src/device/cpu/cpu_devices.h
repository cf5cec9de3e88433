// Several CPU devices in one process: each has cores of its own, so that they compute side by side
// as cards would.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "device/cpu/cpu_device.h"
#include "device/device_info.h"

namespace hs {

// A core and where it is.
struct CpuCore {
  int cpu = 0;      // the system's number of the (logical) core
  int package = 0;  // socket
  int core = 0;     // physical core within the package; its logical cores share it
  bool operator==(const CpuCore&) const = default;
};
// The cores this process may run on. One whose place the system does not tell stands for itself.
std::vector<CpuCore> process_core_places();

// n shares whose sizes differ by one at most, the larger ones first; neighbours stay together:
// logical cores of one physical core, then cores of one socket. 1 <= n <= cores.size().
std::vector<std::vector<int>> split_cores(std::vector<CpuCore> cores, size_t n);

// The CPU devices in use, in this order: each is pinned to its share of the process's cores. A
// single one has all cores and is not pinned. `common` is for all of them, its index and cores are
// not looked at; its threads are those of each device. Indices are distinct.
// Errors: kInvalidArgument for more devices than cores, and those of make_cpu_device().
Result<std::vector<std::unique_ptr<Device>>> make_cpu_devices(std::span<const int> indices,
                                                              const CpuDeviceOptions& common);

// All cores of the process as one device, its rates measured with a thread a core: about 0.1 s and
// 64 MiB. Memory: the system's.
DeviceInfo measure_cpu();

}  // namespace hs
