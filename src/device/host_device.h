// What devices share whose memory is the host's: every copy is a memcpy, finished when it returns,
// and every such device reaches every other.
#pragma once

#include "device/device.h"

namespace hs {

class HostDevice : public Device {
 public:
  using Device::check;
  using Device::copy_from;
  using Device::read;
  using Device::write;

  void upload(const void* host, void* device, size_t bytes) override;
  void download(const void* device, void* host, size_t bytes) override;
  Status sync() override { return {}; }
  Status read(std::span<const CopyRun> runs) override;
  Status write(std::span<const CopyRun> runs) override;
  bool reaches(const Device& other) const override;
  Status copy_from(const Device& other, std::span<const CopyRun> runs) override;
  Result<MemoryCheck> check(std::span<const MemoryRange> ranges, DType dtype) override;
  Result<Buffer> allocate_staging(size_t bytes) override { return allocate(bytes); }
};

// Whether the device's memory is the host's.
bool in_host_memory(const Device& device);

}  // namespace hs
