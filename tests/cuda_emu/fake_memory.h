// The address spaces of the fake CUDA runtime: one a device, and pinned host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace hs::cuda_emu {

// An allocation; freed ones stay known, and their addresses are never given out again.
struct Block {
  uintptr_t begin = 0;
  size_t bytes = 0;
  uint64_t number = 0;  // in order of allocation
  bool live = true;
  bool registered = false;  // pinned by cudaHostRegister: not the runtime's to free
};

// Blocks by address.
class Blocks {
 public:
  Block& add(Block block) { return blocks_[block.begin] = block; }
  void erase(uintptr_t begin) { blocks_.erase(begin); }
  // The last block that begins at or before the address, or null.
  Block* before(const void* p);
  const Block* before(const void* p) const { return const_cast<Blocks*>(this)->before(p); }
  // The live block that holds all the bytes, or null.
  const Block* holding(const void* p, size_t bytes) const;
  const std::map<uintptr_t, Block>& all() const { return blocks_; }
  // "0x7f..: 12 bytes behind an allocation of 64 bytes", of an address between these blocks.
  std::string describe(const void* p, const std::string& whose) const;

 private:
  std::map<uintptr_t, Block> blocks_;
};

// A device's memory: mapped twice, so that the runtime can copy what nobody else may touch. The
// device's addresses are closed but between open() and close(). Blocks end at closed pages, start
// as poison, and are aligned to 256 bytes as cudaMalloc's are.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t limit_bytes);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();

  void* allocate(size_t bytes);  // null: over the limit
  // False if p is not a live block; *intact tells whether nobody wrote beside it.
  bool free(void* p, bool* intact);
  bool contains(const void* p) const;
  const Blocks& blocks() const { return blocks_; }
  // The runtime's own view of a device address.
  std::byte* view(const void* p) const;
  void open();
  void close();
  size_t used_bytes() const { return used_; }
  size_t limit_bytes() const { return limit_; }

 private:
  std::byte* base_ = nullptr;
  std::byte* view_ = nullptr;
  size_t reserved_ = 0;
  size_t cursor_ = 0;
  size_t limit_;
  size_t used_ = 0;
  uint64_t n_allocated_ = 0;
  int file_ = -1;
  bool open_ = false;
  Blocks blocks_;
};

// Pinned host memory: what cudaHostAlloc gave out (poison at first, closed when freed), and what
// cudaHostRegister named.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory();
  void* allocate(size_t bytes);
  bool free(void* p);
  bool pin(void* p, size_t bytes);  // false: a part is pinned already
  bool unpin(void* p);
  const Blocks& blocks() const { return blocks_; }

 private:
  Blocks blocks_;
  uint64_t n_allocated_ = 0;
};

// Whether the process has memory at this address.
bool is_mapped(const void* p);

}  // namespace hs::cuda_emu
