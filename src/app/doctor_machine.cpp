// What doctor looks at of the machine: system, processor, memory, GPUs, links between devices.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "api/version.h"
#include "app/device_roles.h"
#include "app/doctor_checks.h"
#include "app/gpus.h"
#include "app/power_sampler.h"
#include "app/served_engine.h"
#include "device/cpu/cpu_devices.h"
#include "device/energy_counter.h"
#include "device/nvml.h"
#include "device/peer_link.h"
#include "kernels/isa.h"

namespace hs {
namespace {

namespace fs = std::filesystem;

// CUDA 13 needs this driver (NVIDIA, minor version compatibility).
constexpr int kDriverMajorMin = 580;

std::string error_text(int number) {
  return std::error_code(number, std::generic_category()).message();
}

std::string field_of(const fs::path& path, std::string_view name, std::string_view separator) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name)) continue;
    const size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string value = line.substr(at + separator.size());
    std::erase(value, '"');
    while (value.starts_with(' ') || value.starts_with('\t')) value.erase(0, 1);
    return value;
  }
  return {};
}

int64_t meminfo_bytes(std::string_view name) {
  const std::string text = field_of("/proc/meminfo", name, ":");
  int64_t kib = 0;
  std::from_chars(text.data(), text.data() + text.size(), kib);
  return kib << 10;
}

std::string read_word(const fs::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

// NVIDIA's cards by what the bus says, whether or not a driver has them.
int nvidia_cards(const fs::path& pci) {
  int n = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(pci, error))
    if (read_word(entry.path() / "vendor") == "0x10de" &&
        read_word(entry.path() / "class").starts_with("0x03"))
      ++n;
  return n;
}

void check_nodes(const fs::path& dev, Findings& out) {
  std::vector<fs::path> nodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dev, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("nvidia") && !entry.is_directory(error)) nodes.push_back(entry.path());
  }
  std::ranges::sort(nodes);
  for (const char* needed : {"nvidiactl", "nvidia-uvm"})
    if (std::ranges::find(nodes, dev / needed) == nodes.end())
      out.push_back({"gpu", Health::kFail, fmt::format("{} is not there", (dev / needed).string()),
                     "run `nvidia-modprobe -c 0 -u` as root, and at boot"});
  std::string good;
  for (const fs::path& node : nodes) {
    const int file = ::open(node.c_str(), O_RDWR | O_CLOEXEC);
    if (file >= 0) {
      ::close(file);
      good += (good.empty() ? "" : ", ") + node.filename().string();
      continue;
    }
    out.push_back(
        {"gpu", Health::kFail, fmt::format("cannot open {}: {}", node.string(), error_text(errno)),
         "add the user to the node's group (`usermod -aG video,render heteroserve`); under "
         "systemd allow it with DeviceAllow=char-nvidia* rw"});
  }
  if (!good.empty()) out.push_back({"gpu", Health::kOk, "device nodes open: " + good, ""});
}

void check_library(const std::string& name, Findings& out) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    out.push_back({"gpu", Health::kFail, why != nullptr ? why : name + " cannot be opened",
                   "install the driver's user libraries (Debian: libcuda1, libnvidia-ml1)"});
    return;
  }
  void* symbol = dlsym(library, name.starts_with("libcuda") ? "cuInit" : "nvmlInit_v2");
  Dl_info info{};
  const bool known = symbol != nullptr && dladdr(symbol, &info) != 0 && info.dli_fname != nullptr;
  out.push_back(
      {"gpu", Health::kOk, fmt::format("{} at {}", name, known ? info.dli_fname : "?"), ""});
  dlclose(library);
}

void check_driver(Nvml& nvml, Findings& out) {
  const auto driver = nvml.driver_version();
  if (!driver) {
    out.push_back({"gpu", Health::kFail, "driver: " + driver.error().message, "load the driver"});
    return;
  }
  int major = 0;
  std::from_chars(driver->data(), driver->data() + driver->size(), major);
  const auto cuda = nvml.cuda_version();
  const std::string text = fmt::format(
      "driver {}{}", *driver,
      cuda ? fmt::format(", for CUDA up to {}.{}", *cuda / 1000, *cuda % 1000 / 10) : "");
  if (major >= kDriverMajorMin)
    out.push_back({"gpu", Health::kOk, text, ""});
  else
    out.push_back({"gpu", Health::kFail,
                   fmt::format("{}: older than {}, which CUDA 13 needs", text, kDriverMajorMin),
                   fmt::format("install driver {} or newer", kDriverMajorMin)});
}

std::string gpu_text(const NvmlGpu& gpu) {
  const auto mode = [](int value) { return value < 0 ? "?" : value == 0 ? "off" : "on"; };
  return fmt::format(
      "{} ({}), compute capability {}.{}, {} free of {}, PCIe {} x{} (at most {} x{}), persistence "
      "{}, ECC {}{}",
      gpu.name, gpu.pci, gpu.cc_major, gpu.cc_minor, size_text(static_cast<double>(gpu.free_bytes)),
      size_text(static_cast<double>(gpu.memory_bytes)), gpu.pcie_generation, gpu.pcie_lanes,
      gpu.pcie_generation_max, gpu.pcie_lanes_max, mode(gpu.persistence), mode(gpu.ecc),
      gpu.power_limit_watts < 0 ? "" : fmt::format(", power limit {} W", gpu.power_limit_watts));
}

// An idle card may lower its generation, but not its lanes.
void check_gpus(Nvml& nvml, Findings& out) {
  const auto gpus = nvml.gpus();
  if (!gpus) {
    out.push_back({"gpu", Health::kFail, "the GPUs: " + gpus.error().message, ""});
    return;
  }
  for (const NvmlGpu& gpu : *gpus) {
    Finding finding{"gpu", Health::kOk, gpu_text(gpu), ""};
    if (gpu.pcie_lanes > 0 && gpu.pcie_lanes < gpu.pcie_lanes_max) {
      finding.health = Health::kWarn;
      finding.fix = "fewer PCIe lanes than the card has: another slot, or the riser";
    } else if (gpu.persistence == 0) {
      finding.health = Health::kWarn;
      finding.fix =
          "enable nvidia-persistenced: the driver takes seconds to wake a card without it";
    }
    out.push_back(std::move(finding));
    if (gpu.power_limit_watts >= 0 && gpu.power_limit_watts < gpu.power_limit_default_watts)
      out.push_back({"gpu", Health::kWarn,
                     fmt::format("{} ({}) is limited to {} of {} W", gpu.name, gpu.pci,
                                 gpu.power_limit_watts, gpu.power_limit_default_watts),
                     fmt::format("unless that is meant: `nvidia-smi -i {} -pl {}`", gpu.pci,
                                 gpu.power_limit_default_watts)});
  }
}

// An IOMMU that translates stands between cards that copy to each other, and access control sends
// such copies by way of the processor.
void check_iommu(const fs::path& groups, int n_cards, Findings& out) {
  std::error_code error;
  bool translates = false;
  for (const auto& group : fs::directory_iterator(groups, error))
    translates = translates || read_word(group.path() / "type").starts_with("DMA");
  if (n_cards < 2 || !translates) return;
  out.push_back({"gpu", Health::kWarn,
                 "the IOMMU translates what devices copy to each other: that is slow, or fails",
                 "start Linux with iommu=pt, or switch the IOMMU and ACS off in the firmware"});
}

struct LinkSpeed {
  double gbs = 0;
  double us = 0;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The best of some copies: what is in the way is always another program.
Result<LinkSpeed> measure(PeerLink& link, Device& from, Device& to) {
  constexpr size_t kLarge = size_t{8} << 20;
  constexpr size_t kSmall = 4096;
  constexpr int kRounds = 5;
  auto source = from.allocate(kLarge);
  if (!source) return std::unexpected(source.error());
  auto target = to.allocate(kLarge);
  if (!target) return std::unexpected(target.error());
  LinkSpeed speed{.gbs = 0, .us = 1e9};
  for (int round = 0; round < kRounds; ++round) {
    for (const size_t bytes : {kLarge, kSmall}) {
      const CopyRun run{source->data(), target->data(), bytes};
      const auto start = std::chrono::steady_clock::now();
      const auto copied = link.copy(std::span(&run, 1), false);
      const double seconds = seconds_since(start);
      if (!copied) return std::unexpected(copied.error());
      if (bytes == kLarge)
        speed.gbs = std::max(speed.gbs, static_cast<double>(bytes) * 1e-9 / seconds);
      else
        speed.us = std::min(speed.us, seconds * 1e6);
    }
  }
  return speed;
}

void check_link(const Config& config, Device& from, Device& to, Findings& out) {
  const std::string name = fmt::format("{} -> {}", to_string(from.id()), to_string(to.id()));
  auto link = PeerLink::open(from, to, config.transfer, {});
  if (!link) {
    out.push_back({"links", Health::kFail, fmt::format("{}: {}", name, link.error().message),
                   config.transfer == LinkChoice::kPeer ? "leave out --transfer peer" : ""});
    return;
  }
  const auto speed = measure(**link, from, to);
  if (!speed) {
    out.push_back({"links", Health::kFail, fmt::format("{}: {}", name, speed.error().message), ""});
    return;
  }
  const std::string& note = (*link)->note();
  out.push_back({"links", Health::kOk,
                 fmt::format("{}: {}, a checked copy arrived, {:.1f} GB/s, {:.1f} us for 4 KiB{}{}",
                             name, to_string((*link)->path()), speed->gbs, speed->us,
                             note.empty() ? "" : "; ", note),
                 ""});
}

}  // namespace

std::string size_text(double bytes) {
  constexpr double kGib = 1 << 30;
  return bytes >= kGib ? fmt::format("{:.1f} GiB", bytes / kGib)
                       : fmt::format("{:.0f} MiB", bytes / (1 << 20));
}

void check_system(Findings& out) {
  utsname system{};
  ::uname(&system);
  const std::string name = field_of("/etc/os-release", "PRETTY_NAME", "=");
  out.push_back(
      {"system", Health::kOk,
       fmt::format("heteroserve {}, {}, Linux {} {}", version(),
                   name.empty() ? "an unknown system" : name, system.release, system.machine),
       ""});
}

void check_cpu(const Config& config, Findings& out) {
  const Isa isa = cpu_isa();
  const auto n_cores = std::ssize(process_core_places());
  Finding cpu{
      "cpu", Health::kOk,
      fmt::format("{}, {} core{}, kernels: {}", field_of("/proc/cpuinfo", "model name", ":"),
                  n_cores, n_cores == 1 ? "" : "s", isa_name(isa)),
      ""};
  const char* lowered = std::getenv("HETEROSERVE_CPU_ISA");
  if (isa == Isa::kBaseline) {
    cpu.health = Health::kWarn;
    cpu.fix = lowered != nullptr ? "unset HETEROSERVE_CPU_ISA"
                                 : "use a machine with AVX2: these kernels are many times slower";
  } else if (lowered != nullptr) {
    cpu.health = Health::kWarn;
    cpu.text += fmt::format(" (HETEROSERVE_CPU_ISA={})", lowered);
    cpu.fix = "unset HETEROSERVE_CPU_ISA, unless the lower level is meant";
  }
  out.push_back(std::move(cpu));
  if (config.threads > n_cores)
    out.push_back({"cpu", Health::kWarn,
                   fmt::format("--threads {} are more than the {} cores", config.threads, n_cores),
                   "leave out --threads"});
}

void check_memory(Findings& out) {
  const auto total = static_cast<double>(meminfo_bytes("MemTotal"));
  const auto available = static_cast<double>(meminfo_bytes("MemAvailable"));
  out.push_back({"memory", Health::kOk,
                 fmt::format("{} free of {}", size_text(available), size_text(total)), ""});
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  // Only GPUs copy through pinned memory.
  const bool matters = nvidia_cards("/sys/bus/pci/devices") > 0 && !unlimited;
  out.push_back(
      {"memory", matters ? Health::kWarn : Health::kOk,
       fmt::format("locked memory: {}",
                   unlimited ? "no limit" : size_text(static_cast<double>(limit.rlim_cur))),
       matters ? "LimitMEMLOCK=infinity in the unit, or `ulimit -l unlimited`" : ""});
}

void check_nvidia(const NvidiaPaths& paths, Findings& out) {
  const int n_cards = nvidia_cards(paths.pci);
  std::error_code error;
  const bool has_driver =
      fs::exists(paths.proc_version, error) || fs::exists(paths.dev / "nvidiactl", error);
  if (n_cards == 0 && !has_driver) {
    out.push_back({"gpu", Health::kOk, "no NVIDIA device: the CPU computes", ""});
    return;
  }
  if (!has_driver) {
    out.push_back(
        {"gpu", Health::kFail,
         fmt::format("{} NVIDIA device{}, and no driver is loaded", n_cards,
                     n_cards == 1 ? "" : "s"),
         fmt::format("install NVIDIA's driver, {} or newer, and load it", kDriverMajorMin)});
    return;
  }
  check_nodes(paths.dev, out);
  check_iommu(paths.iommu_groups, n_cards, out);
  check_library(paths.cuda, out);
  const auto nvml = Nvml::open(paths.nvml);
  if (!nvml) {
    out.push_back({"gpu", Health::kFail, "NVML: " + nvml.error().message,
                   "install the driver's user libraries of the loaded module's version, or reboot "
                   "after an upgrade"});
    return;
  }
  check_driver(**nvml, out);
  check_gpus(**nvml, out);
}

void check_backend(const Config& config, const Result<Gpus>& gpus, Findings& out) {
  const std::string fix =
      "install the CUDA plug-in (package heteroserve-cuda) and what it asks for, or "
      "set --device cpu";
  if (!gpus) {
    out.push_back({"gpu", Health::kFail, gpus.error().message, fix});
    return;
  }
  for (const DeviceInfo& gpu : gpus->devices)
    out.push_back(
        {"gpu", Health::kOk, fmt::format("{}: {}, can be used", to_string(gpu.id), gpu.name), ""});
  const bool wanted = config.device == DeviceChoice::kAuto &&
                      (gpus->is_installed || nvidia_cards("/sys/bus/pci/devices") > 0);
  if (gpus->devices.empty() && wanted)
    out.push_back({"gpu", Health::kWarn, "no GPU is used: " + gpus->why_none, fix});
}

void check_links(const Config& config, const Result<Gpus>& gpus, Findings& out) {
  if (config.is_plain()) {
    out.push_back({"links", Health::kOk, "one device: nothing is copied between devices", ""});
    return;
  }
  const auto roles = gpus ? choose_roles(config, take_inventory(*gpus))
                          : Result<DeviceRoles>(std::unexpected(gpus.error()));
  const Status sensible = roles ? check_roles(config, *roles) : std::unexpected(roles.error());
  if (!sensible) {
    out.push_back({"links", Health::kFail, sensible.error().message, "mend the setting it names"});
    return;
  }
  for (const DeviceRoles::Row& row : roles->rows)
    out.push_back({"links", Health::kOk,
                   fmt::format("{}: {}, {}", to_string(row.device.id),
                               row.is_consumer && row.is_datacenter ? "consumer and datacenter"
                               : row.is_consumer                    ? "consumer"
                                                                    : "datacenter",
                               row.device.name),
                   ""});
  Config one_thread = config;
  one_thread.threads = 1;
  const auto devices = make_role_devices(one_thread, *gpus, roles->rows);
  if (!devices) {
    out.push_back({"links", Health::kFail, devices.error().message, "mend the setting it names"});
    return;
  }
  for (const auto& from : *devices)
    for (const auto& to : *devices)
      if (from != to) check_link(config, *from, *to, out);
}

void check_energy(Findings& out) {
  const auto counter = open_rapl();
  if (counter)
    out.push_back({"energy", Health::kOk, "the CPU's energy can be read", ""});
  else
    out.push_back(
        {"energy", Health::kOk,
         fmt::format("the CPU's energy is not known: {}; requests on it are logged without",
                     counter.error().message),
         counter.error().kind == ErrorKind::kIo
             ? "to have it, let the service's group read energy_uj (root's only by default)"
             : ""});
}

}  // namespace hs
