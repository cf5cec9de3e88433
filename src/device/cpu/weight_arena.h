// Weights side by side in huge pages.
//
// A matrix below a few MiB does not fill 2 MiB pages of its own, and streaming weights through
// 4 KiB pages costs an address miss every 64 cache lines. So small matrices share chunks that are
// made of huge pages.
#pragma once

#include <cstddef>

#include "device/device.h"

namespace hs {

class WeightArena {
 public:
  WeightArena() = default;
  WeightArena(const WeightArena&) = delete;
  WeightArena& operator=(const WeightArena&) = delete;
  ~WeightArena();

  // 64-byte aligned and zero; empty where there is no memory. It may outlive the arena and be freed
  // by any thread; a chunk's memory goes back to the system with its last buffer. Matrices of
  // kAlone bytes and more have memory of their own. Thread: one at a time.
  Buffer allocate(DeviceId device, size_t bytes);

  static constexpr size_t kChunkBytes = size_t{32} << 20;
  static constexpr size_t kAlone = size_t{8} << 20;

 private:
  void* open_ = nullptr;  // the chunk that still takes buffers
  size_t used_ = 0;       // of it
};

}  // namespace hs
