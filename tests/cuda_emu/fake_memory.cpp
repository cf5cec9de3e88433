#include "cuda_emu/fake_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "cuda_emu/memory.h"

namespace hs::cuda_emu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kGap = size_t{64} << 10;  // closed addresses between two blocks
constexpr size_t kAlignment = 256;
constexpr size_t kReservedMin = size_t{32} << 30;
constexpr std::byte kBeside{0xA5};

size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

size_t padded(size_t bytes) {
  return round_up(std::max<size_t>(bytes, 1), kAlignment);
}

bool all_beside(const std::byte* from, const std::byte* to) {
  return std::all_of(from, to, [](std::byte b) { return b == kBeside; });
}

}  // namespace

Block* Blocks::before(const void* p) {
  auto after = blocks_.upper_bound(reinterpret_cast<uintptr_t>(p));
  return after == blocks_.begin() ? nullptr : &std::prev(after)->second;
}

const Block* Blocks::holding(const void* p, size_t bytes) const {
  const Block* block = before(p);
  if (block == nullptr || !block->live) return nullptr;
  const size_t offset = reinterpret_cast<uintptr_t>(p) - block->begin;
  return offset <= block->bytes && bytes <= block->bytes - offset ? block : nullptr;
}

std::string Blocks::describe(const void* p, const std::string& whose) const {
  const Block* block = before(p);
  if (block == nullptr) return fmt::format("{}: no allocation of {}", p, whose);
  const size_t offset = reinterpret_cast<uintptr_t>(p) - block->begin;
  const std::string allocation =
      fmt::format("allocation {} of {} ({} bytes)", block->number, whose, block->bytes);
  if (offset < block->bytes) {
    return fmt::format("{}: byte {} of {}{}", p, offset, block->live ? "" : "the freed ",
                       allocation);
  }
  return fmt::format("{}: {} bytes behind {}{}", p, offset - block->bytes,
                     block->live ? "" : "the freed ", allocation);
}

DeviceMemory::DeviceMemory(size_t limit_bytes)
    : reserved_(std::max(kReservedMin, round_up(4 * limit_bytes, kPage))), limit_(limit_bytes) {
  file_ = memfd_create("fake device", MFD_CLOEXEC);
  HS_CHECK(file_ >= 0);
  HS_CHECK(ftruncate(file_, static_cast<off_t>(reserved_)) == 0);
  void* base = mmap(nullptr, reserved_, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  void* view =
      mmap(nullptr, reserved_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  HS_CHECK(base != MAP_FAILED && view != MAP_FAILED);
  base_ = static_cast<std::byte*>(base);
  view_ = static_cast<std::byte*>(view);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      view_(other.view_),
      reserved_(other.reserved_),
      cursor_(other.cursor_),
      limit_(other.limit_),
      used_(other.used_),
      n_allocated_(other.n_allocated_),
      file_(other.file_),
      open_(other.open_),
      blocks_(std::move(other.blocks_)) {}

DeviceMemory::~DeviceMemory() {
  if (base_ == nullptr) return;
  munmap(base_, reserved_);
  munmap(view_, reserved_);
  ::close(file_);
}

void* DeviceMemory::allocate(size_t bytes) {
  const size_t inner = padded(bytes);
  if (bytes > limit_ || inner > limit_ - used_) return nullptr;
  const size_t pages = round_up(inner, kPage);
  HS_CHECK_LE(cursor_ + kGap + pages, reserved_);  // addresses are not used twice
  std::byte* first = view_ + cursor_ + kGap;
  std::byte* at = first + (pages - inner);
  std::fill(first, at, kBeside);
  std::memset(at, kPoison, bytes);
  std::fill(at + bytes, at + inner, kBeside);
  cursor_ += kGap + pages;
  used_ += inner;
  std::byte* p = base_ + (at - view_);
  blocks_.add({.begin = reinterpret_cast<uintptr_t>(p), .bytes = bytes, .number = ++n_allocated_});
  HS_CHECK(!open_);
  return p;
}

bool DeviceMemory::free(void* p, bool* intact) {
  Block* block = blocks_.before(p);
  if (block == nullptr || !block->live || block->begin != reinterpret_cast<uintptr_t>(p)) {
    return false;
  }
  HS_CHECK(!open_);
  const size_t inner = padded(block->bytes), pages = round_up(inner, kPage);
  const std::byte* at = view(p);
  *intact = all_beside(at - (pages - inner), at) && all_beside(at + block->bytes, at + inner);
  used_ -= inner;
  block->live = false;
  const auto offset = static_cast<off_t>(at - view_) - static_cast<off_t>(pages - inner);
  HS_CHECK(fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                     static_cast<off_t>(pages)) == 0);
  return true;
}

bool DeviceMemory::contains(const void* p) const {
  const auto* at = static_cast<const std::byte*>(p);
  return at >= base_ && at < base_ + reserved_;
}

std::byte* DeviceMemory::view(const void* p) const {
  return view_ + (static_cast<const std::byte*>(p) - base_);
}

void DeviceMemory::open() {
  if (std::exchange(open_, true)) return;
  for (const auto& [begin, block] : blocks_.all()) {
    if (!block.live) continue;
    const size_t inner = padded(block.bytes), pages = round_up(inner, kPage);
    void* first = base_ + (begin + inner - pages - reinterpret_cast<uintptr_t>(base_));
    HS_CHECK(mprotect(first, pages, PROT_READ | PROT_WRITE) == 0);
  }
}

void DeviceMemory::close() {
  if (!std::exchange(open_, false) || cursor_ == 0) return;
  HS_CHECK(mprotect(base_, cursor_, PROT_NONE) == 0);
}

PinnedMemory::~PinnedMemory() {
  for (const auto& [begin, block] : blocks_.all()) {
    if (block.registered) continue;
    const size_t pages = round_up(padded(block.bytes), kPage);
    const uintptr_t first = begin + padded(block.bytes) - pages - kPage;
    munmap(reinterpret_cast<void*>(first), pages + 2 * kPage);
  }
}

void* PinnedMemory::allocate(size_t bytes) {
  const size_t inner = padded(bytes), pages = round_up(inner, kPage);
  void* mapping = mmap(nullptr, pages + 2 * kPage, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  std::byte* first = static_cast<std::byte*>(mapping) + kPage;
  HS_CHECK(mprotect(first, pages, PROT_READ | PROT_WRITE) == 0);
  std::byte* p = first + (pages - inner);
  std::memset(p, kPoison, bytes);
  blocks_.add({.begin = reinterpret_cast<uintptr_t>(p), .bytes = bytes, .number = ++n_allocated_});
  return p;
}

bool PinnedMemory::free(void* p) {
  Block* block = blocks_.before(p);
  if (block == nullptr || !block->live || block->registered ||
      block->begin != reinterpret_cast<uintptr_t>(p)) {
    return false;
  }
  block->live = false;
  const size_t inner = padded(block->bytes), pages = round_up(inner, kPage);
  std::byte* first = static_cast<std::byte*>(p) + inner - pages;
  HS_CHECK(mprotect(first, pages, PROT_NONE) == 0);
  madvise(first, pages, MADV_DONTNEED);
  return true;
}

bool PinnedMemory::pin(void* p, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(p);
  const Block* last = blocks_.before(static_cast<std::byte*>(p) + bytes - 1);
  if (last != nullptr && last->live && last->begin + last->bytes > begin) return false;
  blocks_.add({.begin = begin, .bytes = bytes, .number = ++n_allocated_, .registered = true});
  return true;
}

bool PinnedMemory::unpin(void* p) {
  const Block* block = blocks_.before(p);
  if (block == nullptr || !block->live || !block->registered ||
      block->begin != reinterpret_cast<uintptr_t>(p)) {
    return false;
  }
  blocks_.erase(block->begin);
  return true;
}

bool is_mapped(const void* p) {
  unsigned char resident = 0;
  auto page = reinterpret_cast<uintptr_t>(p) / kPage * kPage;
  return mincore(reinterpret_cast<void*>(page), 1, &resident) == 0;
}

}  // namespace hs::cuda_emu
