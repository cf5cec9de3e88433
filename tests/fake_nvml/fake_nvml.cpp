// A library with NVML's functions and two cards that exist nowhere, for tests of device/nvml.
#include <cstdio>
#include <cstring>

namespace {

struct Card {
  const char* name;
  const char* uuid;
  const char* pci;
  unsigned lanes;
  unsigned long long millijoules;
};
Card cards[] = {{"Fake RTX 4090", "GPU-0", "00000000:41:00.0", 8, 1000},
                {"Fake A100", "GPU-1", "00000000:42:00.0", 16, 0}};

constexpr int kOk = 0;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;

Card& card(void* handle) {
  return *static_cast<Card*>(handle);
}

}  // namespace

extern "C" {

struct FakeMemory {
  unsigned long long total, free, used;
};
struct FakePci {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
};

int nvmlInit_v2() {
  return kOk;
}
int nvmlShutdown() {
  return kOk;
}
const char* nvmlErrorString(int code) {
  return code == kNotSupported ? "Not Supported" : "Not Found";
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "580.65.06");
  return kOk;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kOk;
}
int nvmlDeviceGetCount_v2(unsigned* n) {
  *n = 2;
  return kOk;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** handle) {
  *handle = &cards[i];
  return kOk;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** handle) {
  for (Card& one : cards) {
    if (std::strcmp(one.pci, pci) != 0) continue;
    *handle = &one;
    return kOk;
  }
  return kNotFound;
}
int nvmlDeviceGetName(void* handle, char* text, unsigned size) {
  std::snprintf(text, size, "%s", card(handle).name);
  return kOk;
}
int nvmlDeviceGetUUID(void* handle, char* text, unsigned size) {
  std::snprintf(text, size, "%s", card(handle).uuid);
  return kOk;
}
int nvmlDeviceGetPciInfo_v3(void* handle, FakePci* pci) {
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "%s", card(handle).pci);
  return kOk;
}
int nvmlDeviceGetMemoryInfo(void*, FakeMemory* memory) {
  *memory = {24ULL << 30, 20ULL << 30, 4ULL << 30};
  return kOk;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = 8;
  *minor = 9;
  return kOk;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* value) {
  *value = 4;
  return kOk;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* value) {
  *value = 4;
  return kOk;
}
int nvmlDeviceGetCurrPcieLinkWidth(void* handle, unsigned* value) {
  *value = card(handle).lanes;
  return kOk;
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* value) {
  *value = 16;
  return kOk;
}
int nvmlDeviceGetPersistenceMode(void*, int* mode) {
  *mode = 0;
  return kOk;
}
int nvmlDeviceGetPowerManagementLimit(void*, unsigned* milliwatts) {
  *milliwatts = 300'000;
  return kOk;
}
int nvmlDeviceGetPowerManagementDefaultLimit(void*, unsigned* milliwatts) {
  *milliwatts = 450'000;
  return kOk;
}
int nvmlDeviceGetTotalEnergyConsumption(void* handle, unsigned long long* millijoules) {
  if (card(handle).millijoules == 0) return kNotSupported;
  *millijoules = card(handle).millijoules += 2500;
  return kOk;
}
}
