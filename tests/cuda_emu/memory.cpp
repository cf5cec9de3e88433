#include "cuda_emu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hs::cuda_emu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kGuard = size_t{1} << 20;  // unmapped on either side
constexpr std::byte kBeside{0xA5};

size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

GuardedMemory::GuardedMemory(size_t bytes, size_t alignment) : bytes_(bytes) {
  const size_t inner = std::max(round_up(round_up(bytes, alignment), kPage), kPage);
  mapped_ = inner + 2 * kGuard;
  void* at = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  HS_CHECK(at != MAP_FAILED);
  mapping_ = static_cast<std::byte*>(at);
  HS_CHECK(mprotect(mapping_ + kGuard, inner, PROT_READ | PROT_WRITE) == 0);
  data_ = mapping_ + kGuard + inner - round_up(bytes, alignment);
  std::fill(mapping_ + kGuard, mapping_ + kGuard + inner, kBeside);
  poison();
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(other.mapped_),
      data_(other.data_),
      bytes_(other.bytes_) {}

GuardedMemory::~GuardedMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

void GuardedMemory::poison() {
  std::fill_n(data_, bytes_, std::byte{kPoison});
}

bool GuardedMemory::intact() const {
  const auto untouched = [](std::byte b) { return b == kBeside; };
  return std::all_of(mapping_ + kGuard, data_, untouched) &&
         std::all_of(data_ + bytes_, mapping_ + mapped_ - kGuard, untouched);
}

}  // namespace hs::cuda_emu
