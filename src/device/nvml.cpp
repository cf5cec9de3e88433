#include "device/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <utility>

namespace hs {
namespace {

using Handle = void*;
using Code = int;
constexpr Code kOk = 0;

struct MemoryInfo {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
struct PciInfo {
  char bus_id_legacy[16] = {};
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned device_id = 0;
  unsigned subsystem_id = 0;
  char bus_id[32] = {};
};

// Absent functions stay null: older drivers lack some.
struct Functions {
  Code (*init)() = nullptr;
  Code (*shutdown)() = nullptr;
  const char* (*error_string)(Code) = nullptr;
  Code (*driver_version)(char*, unsigned) = nullptr;
  Code (*cuda_version)(int*) = nullptr;
  Code (*count)(unsigned*) = nullptr;
  Code (*by_index)(unsigned, Handle*) = nullptr;
  Code (*by_pci)(const char*, Handle*) = nullptr;
  Code (*name)(Handle, char*, unsigned) = nullptr;
  Code (*uuid)(Handle, char*, unsigned) = nullptr;
  Code (*pci)(Handle, PciInfo*) = nullptr;
  Code (*memory)(Handle, MemoryInfo*) = nullptr;
  Code (*capability)(Handle, int*, int*) = nullptr;
  Code (*generation)(Handle, unsigned*) = nullptr;
  Code (*generation_max)(Handle, unsigned*) = nullptr;
  Code (*lanes)(Handle, unsigned*) = nullptr;
  Code (*lanes_max)(Handle, unsigned*) = nullptr;
  Code (*persistence)(Handle, int*) = nullptr;
  Code (*ecc)(Handle, int*, int*) = nullptr;
  Code (*power_limit)(Handle, unsigned*) = nullptr;  // milliwatts
  Code (*power_limit_default)(Handle, unsigned*) = nullptr;
  Code (*energy)(Handle, unsigned long long*) = nullptr;  // millijoules
};

template <typename Function>
void find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(library, name));
}

Functions find_all(void* library) {
  Functions f;
  find(library, "nvmlInit_v2", f.init);
  find(library, "nvmlShutdown", f.shutdown);
  find(library, "nvmlErrorString", f.error_string);
  find(library, "nvmlSystemGetDriverVersion", f.driver_version);
  find(library, "nvmlSystemGetCudaDriverVersion_v2", f.cuda_version);
  find(library, "nvmlDeviceGetCount_v2", f.count);
  find(library, "nvmlDeviceGetHandleByIndex_v2", f.by_index);
  find(library, "nvmlDeviceGetHandleByPciBusId_v2", f.by_pci);
  find(library, "nvmlDeviceGetName", f.name);
  find(library, "nvmlDeviceGetUUID", f.uuid);
  find(library, "nvmlDeviceGetPciInfo_v3", f.pci);
  find(library, "nvmlDeviceGetMemoryInfo", f.memory);
  find(library, "nvmlDeviceGetCudaComputeCapability", f.capability);
  find(library, "nvmlDeviceGetCurrPcieLinkGeneration", f.generation);
  find(library, "nvmlDeviceGetMaxPcieLinkGeneration", f.generation_max);
  find(library, "nvmlDeviceGetCurrPcieLinkWidth", f.lanes);
  find(library, "nvmlDeviceGetMaxPcieLinkWidth", f.lanes_max);
  find(library, "nvmlDeviceGetPersistenceMode", f.persistence);
  find(library, "nvmlDeviceGetEccMode", f.ecc);
  find(library, "nvmlDeviceGetPowerManagementLimit", f.power_limit);
  find(library, "nvmlDeviceGetPowerManagementDefaultLimit", f.power_limit_default);
  find(library, "nvmlDeviceGetTotalEnergyConsumption", f.energy);
  return f;
}

std::string text_of(Code (*get)(Handle, char*, unsigned), Handle gpu) {
  std::array<char, 128> text{};
  if (get == nullptr || get(gpu, text.data(), text.size() - 1) != kOk) return {};
  return text.data();
}

int number_of(Code (*get)(Handle, unsigned*), Handle gpu) {
  unsigned value = 0;
  return get != nullptr && get(gpu, &value) == kOk ? static_cast<int>(value) : -1;
}

class LoadedNvml final : public Nvml {
 public:
  LoadedNvml(void* library, const Functions& functions) : library_(library), f_(functions) {}
  LoadedNvml(const LoadedNvml&) = delete;
  LoadedNvml& operator=(const LoadedNvml&) = delete;
  ~LoadedNvml() override {
    if (f_.shutdown != nullptr) f_.shutdown();
    dlclose(library_);
  }

  Result<std::string> driver_version() override {
    std::array<char, 128> text{};
    if (f_.driver_version == nullptr) return missing();
    const Code code = f_.driver_version(text.data(), text.size() - 1);
    if (code != kOk) return failed(code);
    return std::string(text.data());
  }

  Result<int> cuda_version() override {
    int version = 0;
    if (f_.cuda_version == nullptr) return missing();
    const Code code = f_.cuda_version(&version);
    if (code != kOk) return failed(code);
    return version;
  }

  Result<std::vector<NvmlGpu>> gpus() override {
    unsigned n = 0;
    if (f_.count == nullptr || f_.by_index == nullptr) return missing();
    if (const Code code = f_.count(&n); code != kOk) return failed(code);
    std::vector<NvmlGpu> found;
    for (unsigned i = 0; i < n; ++i) {
      Handle gpu = nullptr;
      if (f_.by_index(i, &gpu) != kOk) continue;  // one that this user may not open
      found.push_back(describe(gpu));
    }
    return found;
  }

  Result<double> joules(const std::string& pci) override {
    if (f_.by_pci == nullptr || f_.energy == nullptr) return missing();
    Handle gpu = nullptr;
    if (const Code code = f_.by_pci(pci.c_str(), &gpu); code != kOk) return failed(code);
    unsigned long long millijoules = 0;
    if (const Code code = f_.energy(gpu, &millijoules); code != kOk) return failed(code);
    return static_cast<double>(millijoules) * 1e-3;
  }

  std::unexpected<Error> failed(Code code) const {
    return fail(ErrorKind::kUnavailable, f_.error_string != nullptr
                                             ? f_.error_string(code)
                                             : fmt::format("NVML error {}", code));
  }

 private:
  static std::unexpected<Error> missing() {
    return fail(ErrorKind::kUnsupported, "the driver is too old for this");
  }

  NvmlGpu describe(Handle gpu) const {
    NvmlGpu out;
    out.name = text_of(f_.name, gpu);
    out.uuid = text_of(f_.uuid, gpu);
    PciInfo pci;
    if (f_.pci != nullptr && f_.pci(gpu, &pci) == kOk) out.pci = pci.bus_id;
    MemoryInfo memory;
    if (f_.memory != nullptr && f_.memory(gpu, &memory) == kOk) {
      out.memory_bytes = memory.total;
      out.free_bytes = memory.free;
    }
    if (f_.capability != nullptr) f_.capability(gpu, &out.cc_major, &out.cc_minor);
    out.pcie_generation = number_of(f_.generation, gpu);
    out.pcie_generation_max = number_of(f_.generation_max, gpu);
    out.pcie_lanes = number_of(f_.lanes, gpu);
    out.pcie_lanes_max = number_of(f_.lanes_max, gpu);
    int mode = 0;
    int pending = 0;
    if (f_.persistence != nullptr && f_.persistence(gpu, &mode) == kOk) out.persistence = mode;
    if (f_.ecc != nullptr && f_.ecc(gpu, &mode, &pending) == kOk) out.ecc = mode;
    out.power_limit_watts = watts_of(f_.power_limit, gpu);
    out.power_limit_default_watts = watts_of(f_.power_limit_default, gpu);
    return out;
  }
  static int watts_of(Code (*get)(Handle, unsigned*), Handle gpu) {
    const int milliwatts = number_of(get, gpu);
    return milliwatts < 0 ? -1 : milliwatts / 1000;
  }

  void* library_;
  Functions f_;
};

}  // namespace

Result<std::shared_ptr<Nvml>> Nvml::open(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return fail(ErrorKind::kNotFound, why != nullptr ? why : library + " cannot be opened");
  }
  const Functions functions = find_all(handle);
  if (functions.init == nullptr) {
    dlclose(handle);
    return fail(ErrorKind::kUnavailable, library + " is no NVML");
  }
  const Code code = functions.init();
  if (code != kOk) {
    const std::string why = functions.error_string != nullptr ? functions.error_string(code)
                                                              : fmt::format("NVML error {}", code);
    dlclose(handle);
    return fail(ErrorKind::kUnavailable, why);
  }
  return std::make_shared<LoadedNvml>(handle, functions);
}

}  // namespace hs
