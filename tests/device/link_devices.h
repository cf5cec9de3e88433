// Devices whose memory the host cannot touch and whose copies go wrong on demand.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "base/check.h"
#include "device/host_device.h"

namespace hs::test {

// A fault of copies: `after` go well, then `times` of them are spoilt.
struct CopyFault {
  std::atomic<int> after = 0;
  std::atomic<int> times = 0;  // 0: none
  bool strikes() {
    if (times == 0 || after-- > 0) return false;
    --times;
    return true;
  }
};

// Addresses of device i carry its number in bits that no address of the host has set: following one
// on the host, or on another device, stops the test. Ops are not part of it.
class FarDevice : public Device {
 public:
  using Device::check;
  using Device::copy_from;
  using Device::read;
  using Device::write;

  explicit FarDevice(int index) : id_{DeviceId::Kind::kCuda, index} {}

  DeviceId id() const override { return id_; }
  std::string description() const override { return "far"; }
  DType activation_dtype() const override { return DType::kF32; }
  Ops& ops() override { check_failed(__FILE__, __LINE__, "the far device has no ops"); }
  Result<Buffer> allocate(size_t bytes) override {
    ++n_allocations;
    void* data = std::calloc(bytes + 1, 1);
    return Buffer(
        id_, reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(data) | tag()), bytes,
        [](void* memory, size_t) {
          std::free(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory) & kAddress));
        });
  }
  Result<Buffer> allocate_staging(size_t bytes) override {
    ++n_allocations;
    return Buffer(id_, std::calloc(bytes, 1), bytes,
                  [](void* memory, size_t) { std::free(memory); });
  }
  Result<OwnedWeight> pack_weight(std::span<const WeightPart>, int64_t, DType) override {
    return fail(ErrorKind::kUnsupported, "the far device has no weights");
  }
  void upload(const void*, void*, size_t) override {
    check_failed(__FILE__, __LINE__, "a link does not use the ops' stream");
  }
  void download(const void*, void*, size_t) override { upload(nullptr, nullptr, 0); }
  Status sync() override { return {}; }

  Status read(std::span<const CopyRun> runs) override {
    ++n_reads;
    if (lost) return fail(ErrorKind::kUnavailable, "the far device is lost");
    if (failing_reads.strikes()) return fail(ErrorKind::kInternal, "the read failed");
    for (const CopyRun& run : runs) std::memcpy(run.to, own(run.from), run.bytes);
    if (spoilt_reads.strikes()) flip(runs.back().to);
    return {};
  }
  Status write(std::span<const CopyRun> runs) override {
    ++n_writes;
    if (lost) return fail(ErrorKind::kUnavailable, "the far device is lost");
    if (failing_writes.strikes()) return fail(ErrorKind::kInternal, "the write failed");
    for (const CopyRun& run : runs) std::memcpy(own(run.to), run.from, run.bytes);
    if (spoilt_writes.strikes()) flip(own(runs.front().to));
    return {};
  }
  bool reaches(const Device& other) const override { return &other == this || has_peer_access; }
  Status copy_from(const Device& other, std::span<const CopyRun> runs) override {
    ++n_peer_copies;
    const auto& from = dynamic_cast<const FarDevice&>(other);
    if (failing_peer_copies.strikes()) return fail(ErrorKind::kUnavailable, "the peer copy failed");
    const bool is_spoilt = spoilt_peer_copies.strikes();
    for (const CopyRun& run : runs) {
      // The last byte of a spoilt copy never arrives.
      const size_t bytes = is_spoilt && &run == &runs.back() ? run.bytes - 1 : run.bytes;
      std::memcpy(own(run.to), from.own(run.from), bytes);
    }
    return {};
  }
  Result<MemoryCheck> check(std::span<const MemoryRange> ranges, DType dtype) override {
    if (lost) return fail(ErrorKind::kUnavailable, "the far device is lost");
    std::vector<MemoryRange> mine;
    for (const MemoryRange& range : ranges) mine.push_back({own(range.data), range.bytes});
    MemoryCheck result = check_host_memory(mine, dtype);
    if (wrong_checksums) ++result.checksum;
    return result;
  }

  bool has_peer_access = false;
  bool wrong_checksums = false;
  std::atomic<bool> lost = false;
  CopyFault spoilt_reads, spoilt_writes, spoilt_peer_copies;
  CopyFault failing_reads, failing_writes, failing_peer_copies;
  std::atomic<int> n_allocations = 0;
  std::atomic<int> n_reads = 0, n_writes = 0, n_peer_copies = 0;

 private:
  static constexpr uintptr_t kAddress = (uintptr_t{1} << 56) - 1;
  uintptr_t tag() const { return static_cast<uintptr_t>(id_.index + 1) << 57; }
  void* own(const void* address) const {
    const auto bits = reinterpret_cast<uintptr_t>(address);
    HS_CHECK_EQ(bits & ~kAddress, tag());
    return reinterpret_cast<void*>(bits & kAddress);
  }
  static void flip(void* byte) { *static_cast<unsigned char*>(byte) ^= 0x10; }

  DeviceId id_;
};

}  // namespace hs::test
