#include "device/host_device.h"

#include <cstring>

#include "base/check.h"

namespace hs {
namespace {

Status copy_runs(std::span<const CopyRun> runs) {
  for (const CopyRun& run : runs)
    if (run.bytes > 0) std::memcpy(run.to, run.from, run.bytes);
  return {};
}

}  // namespace

void HostDevice::upload(const void* host, void* device, size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
}

void HostDevice::download(const void* device, void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
}

Status HostDevice::read(std::span<const CopyRun> runs) {
  return copy_runs(runs);
}

Status HostDevice::write(std::span<const CopyRun> runs) {
  return copy_runs(runs);
}

bool HostDevice::reaches(const Device& other) const {
  return in_host_memory(other);
}

Status HostDevice::copy_from(const Device& other, std::span<const CopyRun> runs) {
  HS_CHECK(reaches(other));
  return copy_runs(runs);
}

Result<MemoryCheck> HostDevice::check(std::span<const MemoryRange> ranges, DType dtype) {
  return check_host_memory(ranges, dtype);
}

bool in_host_memory(const Device& device) {
  return dynamic_cast<const HostDevice*>(&device) != nullptr;
}

}  // namespace hs
