#include "device/cpu/weight_arena.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "device/cpu/host_memory.h"

namespace hs {
namespace {

constexpr size_t kAlignment = 64;

// At the start of each chunk. Chunks stand at multiples of their size, so that a buffer finds its
// own.
struct ChunkHead {
  std::atomic<int64_t> n_users = 1;  // buffers, and the arena while the chunk is open
};

ChunkHead* map_chunk() {
  constexpr size_t kBytes = WeightArena::kChunkBytes;
  void* const area = mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return nullptr;
  char* const first = static_cast<char*>(area);
  const size_t before = (kBytes - reinterpret_cast<uintptr_t>(first) % kBytes) % kBytes;
  if (before > 0) munmap(first, before);
  char* const start = first + before;
  munmap(start + kBytes, kBytes - before);
  madvise(start, kBytes, MADV_HUGEPAGE);  // advice only: small pages are right too
  return new (start) ChunkHead;
}

void leave(ChunkHead* chunk) {
  if (chunk->n_users.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  chunk->~ChunkHead();
  munmap(chunk, WeightArena::kChunkBytes);
}

void leave_of(void* data, size_t) {
  leave(reinterpret_cast<ChunkHead*>(reinterpret_cast<uintptr_t>(data) / WeightArena::kChunkBytes *
                                     WeightArena::kChunkBytes));
}

}  // namespace

WeightArena::~WeightArena() {
  if (open_ != nullptr) leave(static_cast<ChunkHead*>(open_));
}

Buffer WeightArena::allocate(DeviceId device, size_t bytes) {
  if (bytes >= kAlone) {
    void* const data = allocate_host_memory(bytes);
    return data == nullptr ? Buffer() : Buffer(device, data, bytes, free_host_memory);
  }
  if (open_ == nullptr || used_ + bytes > kChunkBytes) {
    ChunkHead* const chunk = map_chunk();
    if (chunk == nullptr) return {};
    if (open_ != nullptr) leave(static_cast<ChunkHead*>(open_));
    open_ = chunk;
    used_ = kAlignment;
  }
  auto* const chunk = static_cast<ChunkHead*>(open_);
  chunk->n_users.fetch_add(1, std::memory_order_relaxed);
  void* const data = static_cast<char*>(open_) + used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return Buffer(device, data, bytes, leave_of);
}

}  // namespace hs
