#include "device/cpu/cpu_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <tuple>

#include "base/check.h"
#include "device/cpu/cpu_rates.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/host_memory.h"

namespace hs {
namespace {

int read_number(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int number = 0;
  return file >> number ? number : otherwise;
}

struct HostMemory {
  size_t total = 0;
  size_t available = 0;  // that programs may still take
};

HostMemory read_host_memory() {
  HostMemory memory;
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::string unit;
  size_t kib = 0;
  while (file >> name >> kib && std::getline(file, unit)) {
    if (name == "MemTotal:") memory.total = kib << 10;
    if (name == "MemAvailable:") memory.available = kib << 10;
  }
  return memory;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

// The best of some rounds: what is in the way is always another program.
template <typename Work>
double best_seconds(const Work& work) {
  constexpr int kRounds = 4;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

double measure_gflops(Team& team) {
  const int64_t n_items = 16 * int64_t{team.size()};
  const double operations = fma_burst() * static_cast<double>(n_items);
  return operations * 1e-9 /
         best_seconds([&] { team.run(n_items, [](int64_t, int) { fma_burst(); }); });
}

double measure_bandwidth_gbs(Team& team) {
  constexpr size_t kItemBytes = size_t{256} << 10;
  constexpr int64_t kItems = 256;  // 64 MiB, which is more than the caches hold
  constexpr size_t kBytes = kItemBytes * kItems;
  auto* memory = static_cast<std::byte*>(allocate_host_memory(kBytes));
  if (memory == nullptr) return 0;
  team.run(kItems, [&](int64_t item, int) {
    std::memset(memory + static_cast<size_t>(item) * kItemBytes, 1, kItemBytes);
  });
  const double seconds = best_seconds([&] {
    team.run(kItems, [&](int64_t item, int) {
      const uint64_t read =
          read_streams(memory + static_cast<size_t>(item) * kItemBytes, kItemBytes);
      __asm__ volatile("" : : "r"(read));
    });
  });
  free_host_memory(memory, kBytes);
  return static_cast<double>(kBytes) * 1e-9 / seconds;
}

}  // namespace

std::vector<CpuCore> process_core_places() {
  std::vector<CpuCore> places;
  for (const int cpu : process_cores()) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    places.push_back({.cpu = cpu,
                      .package = read_number(folder + "physical_package_id", 0),
                      .core = read_number(folder + "core_id", cpu)});
  }
  return places;
}

std::vector<std::vector<int>> split_cores(std::vector<CpuCore> cores, size_t n) {
  HS_CHECK_GE(n, 1U);
  HS_CHECK_LE(n, cores.size());
  std::ranges::sort(cores, {}, [](const CpuCore& place) {
    return std::tuple(place.package, place.core, place.cpu);
  });
  std::vector<std::vector<int>> shares(n);
  size_t next = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t size = cores.size() / n + (i < cores.size() % n ? 1 : 0);
    for (size_t k = 0; k < size; ++k) shares[i].push_back(cores[next++].cpu);
  }
  return shares;
}

Result<std::vector<std::unique_ptr<Device>>> make_cpu_devices(std::span<const int> indices,
                                                              const CpuDeviceOptions& common) {
  std::vector<std::unique_ptr<Device>> devices;
  if (indices.empty()) return devices;
  const std::vector<CpuCore> cores = process_core_places();
  if (indices.size() > cores.size()) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("{} CPU devices need as many cores; this process may run on {}",
                            indices.size(), cores.size()));
  }
  const std::vector<std::vector<int>> shares = split_cores(cores, indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    CpuDeviceOptions options = common;
    options.index = indices[i];
    options.cores.clear();
    if (indices.size() > 1) options.cores = shares[i];
    Result<std::unique_ptr<Device>> device = make_cpu_device(options);
    if (!device) return std::unexpected(device.error());
    devices.push_back(std::move(*device));
  }
  return devices;
}

DeviceInfo measure_cpu() {
  CpuTeam team({.threads = static_cast<int>(process_cores().size()), .name = "hs-measure"});
  const HostMemory memory = read_host_memory();
  return {.id = {DeviceId::Kind::kCpu, 0},
          .name = cpu_name(),
          .uuid = {},
          .pci = {},
          .memory_bytes = memory.total,
          .free_bytes = memory.available,
          .gflops = measure_gflops(team),
          .bandwidth_gbs = measure_bandwidth_gbs(team),
          .basis = "measured"};
}

}  // namespace hs
