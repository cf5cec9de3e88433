#include "device/cpu/host_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace hs {
namespace {

constexpr size_t kMappedBytesMin = size_t{1} << 20;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 64;

constexpr size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

void* map_huge(size_t bytes) {
  const size_t used = round_up(bytes, kPage);
  const size_t mapped = used + kHugePage;
  if (mapped < bytes) return nullptr;
  void* area = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return nullptr;
  // Give back what stands before the first 2 MiB border and after the end.
  char* const first = static_cast<char*>(area);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(first) % kHugePage) % kHugePage;
  if (before > 0) munmap(first, before);
  char* const start = first + before;
  const size_t after = mapped - before - used;
  if (after > 0) munmap(start + used, after);
  madvise(start, used, MADV_HUGEPAGE);  // advice only: small pages are right too
  return start;
}

}  // namespace

void* allocate_host_memory(size_t bytes) {
  HS_CHECK(bytes > 0);
  if (bytes >= kMappedBytesMin) {
    if (bytes > SIZE_MAX - 2 * kHugePage) return nullptr;
    return map_huge(bytes);
  }
  void* data = std::aligned_alloc(kAlignment, round_up(bytes, kAlignment));
  if (data != nullptr) std::memset(data, 0, bytes);
  return data;
}

void free_host_memory(void* data, size_t bytes) {
  if (data == nullptr) return;
  if (bytes >= kMappedBytesMin) {
    munmap(data, round_up(bytes, kPage));
  } else {
    std::free(data);
  }
}

}  // namespace hs
