// The parts of doctor.h, one function an area. Each appends what it found.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/doctor.h"
#include "app/gpus.h"

namespace hs {

using Findings = std::vector<Finding>;

void check_settings(const Config& config, Findings& out);
void check_system(Findings& out);
void check_cpu(const Config& config, Findings& out);
void check_memory(Findings& out);
// Where device files and the driver's are: changed by tests.
struct NvidiaPaths {
  std::filesystem::path dev = "/dev";
  std::filesystem::path proc_version = "/proc/driver/nvidia/version";
  std::filesystem::path pci = "/sys/bus/pci/devices";
  std::filesystem::path iommu_groups = "/sys/kernel/iommu_groups";
  std::string nvml = "libnvidia-ml.so.1";
  std::string cuda = "libcuda.so.1";
};
void check_nvidia(const NvidiaPaths& paths, Findings& out);
// `gpus`: what find_gpus() says.
void check_backend(const Config& config, const Result<Gpus>& gpus, Findings& out);
void check_links(const Config& config, const Result<Gpus>& gpus, Findings& out);
void check_model(const Config& config, bool checksums, Findings& out);
void check_disk(const Config& config, Findings& out);
void check_port(const Config& config, bool serving, Findings& out);
void check_keys(const Config& config, Findings& out);
void check_log(const Config& config, Findings& out);
void check_energy(Findings& out);
void check_service(Findings& out);

// "3.2 GiB"
std::string size_text(double bytes);

}  // namespace hs
