// Which devices serve which role: what --consumer and --datacenter name, found among the devices of
// this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/config.h"
#include "app/gpus.h"
#include "base/status.h"
#include "device/device_info.h"

namespace hs {

// What there is to choose from.
struct DeviceInventory {
  std::vector<DeviceInfo> gpus;  // ascending by index
  std::string why_no_gpu;        // where there is none; may be empty
  // All cores together. Devices cpu:0, cpu:1, ... are even shares of them: as many shares as CPU
  // devices are named.
  DeviceInfo cpu;
  int32_t n_cores = 0;
};
// Measures the CPU, about 0.1 s.
DeviceInventory take_inventory(const Gpus& gpus);

struct DeviceRoles {
  struct Row {
    DeviceInfo device;
    bool is_consumer = false;
    bool is_datacenter = false;
    std::string why;
  };
  std::vector<DeviceId> consumer;    // at least one, each once
  std::vector<DeviceId> datacenter;  // at least one, each once
  std::vector<Row> rows;             // the devices in use, each once
  bool one_device() const { return rows.size() == 1; }
};

// Reads config.consumer and config.datacenter. Both empty means auto for both; no consumer beside
// datacenter devices that share their language models: the first of each group. An entry is
//   cpu, cpu:1, cuda:0  a kind and its index ("cpu" is cpu:0)
//   0                   an index: of the GPUs, or of the CPU devices where there is no GPU; a
//                       number that is none is taken for a part of a name
//   GPU-1f2e...         a UUID or the beginning of one
//   41:00.0             a PCI address, with or without its domain
//   4090                a part of the name, of one GPU only; case does not matter
// auto ranks the GPUs, or where there are none takes the CPU. Both auto: those that read memory at
// 0.8 times the fastest's rate or more are the datacenter pool, the others the consumer pool; where
// all are alike each has both roles. One auto: the same split among the devices that the other role
// leaves over, or the other role's own where it leaves none.
// Errors (kInvalidArgument, kNotFound; exit status kExitConfig) are one line that names the flag: a
// role without a device, an unknown or ambiguous entry, a device twice in one role.
Result<DeviceRoles> choose_roles(const Config& config, const DeviceInventory& inventory);

// Whether the partition, stealing and tensor parallelism that are asked for make sense on these
// devices. kInvalidArgument otherwise.
Status check_roles(const Config& config, const DeviceRoles& roles);

// A table for people, a line a device, ending with what the partition makes of them.
std::string roles_table(const Config& config, const DeviceRoles& roles);

}  // namespace hs
