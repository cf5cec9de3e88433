#include "device/energy_counter.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

namespace hs {
namespace {

std::optional<double> read_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  double number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// A counter of microjoules that starts again at 0 after `range`.
struct Zone {
  std::filesystem::path file;
  double range = 0;
  double last = 0;
  double sum = 0;  // since it was opened
};

class RaplCounter final : public EnergyCounter {
 public:
  explicit RaplCounter(std::vector<Zone> zones) : zones_(std::move(zones)) {}

  Result<double> joules() override {
    double sum = 0;
    for (Zone& zone : zones_) {
      const auto now = read_number(zone.file);
      if (!now) return fail(ErrorKind::kIo, fmt::format("cannot read {}", zone.file.string()));
      zone.sum += *now >= zone.last ? *now - zone.last : *now + zone.range - zone.last;
      zone.last = *now;
      sum += zone.sum;
    }
    return sum * 1e-6;
  }

 private:
  std::vector<Zone> zones_;
};

class GpuCounter final : public EnergyCounter {
 public:
  GpuCounter(std::shared_ptr<Nvml> nvml, std::string pci)
      : nvml_(std::move(nvml)), pci_(std::move(pci)) {}
  Result<double> joules() override { return nvml_->joules(pci_); }

 private:
  std::shared_ptr<Nvml> nvml_;
  std::string pci_;
};

}  // namespace

// Zones "intel-rapl:N" are packages (AMD's too); their parts are "intel-rapl:N:M".
Result<std::unique_ptr<EnergyCounter>> open_rapl(const std::filesystem::path& root) {
  std::vector<Zone> zones;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("intel-rapl:") || std::ranges::count(name, ':') != 1) continue;
    std::string label;
    std::ifstream(entry.path() / "name") >> label;
    if (!label.starts_with("package")) continue;
    const auto energy = read_number(entry.path() / "energy_uj");
    if (!energy)
      return fail(ErrorKind::kIo,
                  fmt::format("cannot read {}", (entry.path() / "energy_uj").string()));
    zones.push_back({entry.path() / "energy_uj",
                     read_number(entry.path() / "max_energy_range_uj").value_or(0), *energy, 0});
  }
  if (zones.empty())
    return fail(ErrorKind::kNotFound,
                fmt::format("no energy counter of a CPU in {}", root.string()));
  return std::make_unique<RaplCounter>(std::move(zones));
}

Result<std::unique_ptr<EnergyCounter>> open_gpu_energy(std::shared_ptr<Nvml> nvml,
                                                       std::string pci) {
  auto counter = std::make_unique<GpuCounter>(std::move(nvml), std::move(pci));
  if (const auto works = counter->joules(); !works) return std::unexpected(works.error());
  return counter;
}

}  // namespace hs
