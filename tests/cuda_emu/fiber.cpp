#include "cuda_emu/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

static_assert(sizeof(void*) == 8 && __x86_64__, "the switch is written for x86-64");

// hs_switch_stack(void** save, void* load)
asm(R"(
.text
.local hs_switch_stack
.type hs_switch_stack, @function
hs_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size hs_switch_stack, .-hs_switch_stack
)");
extern "C" void hs_switch_stack(void** save, void* load);

namespace hs::cuda_emu {

constexpr size_t kPage = 4096;

FiberStack::FiberStack(size_t bytes)
    : mapped_((bytes + kPage - 1) / kPage * kPage + kPage), bytes_(mapped_ - kPage) {
  void* at = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  HS_CHECK(at != MAP_FAILED);
  mapping_ = static_cast<std::byte*>(at);
  HS_CHECK(mprotect(mapping_, kPage, PROT_NONE) == 0);
  bottom_ = mapping_ + kPage;
}

FiberStack::FiberStack(FiberStack&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(other.mapped_),
      bottom_(other.bottom_),
      bytes_(other.bytes_) {}

FiberStack::~FiberStack() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

void forget_frames([[maybe_unused]] const FiberStack& stack) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack.bottom(), stack.bytes());
#endif
}

Fiber make_fiber(const FiberStack& stack, void (*entry)()) {
  forget_frames(stack);  // what a dropped fiber left
  // As if entry had just been called: six saved registers, the way to entry, and a return address
  // that nobody uses.
  constexpr size_t kWords = 8;
  uint64_t words[kWords] = {};
  words[6] = reinterpret_cast<uint64_t>(entry);
  std::byte* at = stack.bottom() + stack.bytes() - sizeof words;
  std::memcpy(at, words, sizeof words);
  return {.stack_pointer = at, .bottom = stack.bottom(), .bytes = stack.bytes()};
}

void switch_fiber(Fiber& from, Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.sanitizer_stack, to.bottom, to.bytes);
#endif
  hs_switch_stack(&from.stack_pointer, to.stack_pointer);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.sanitizer_stack, nullptr, nullptr);
#endif
}

void entered_fiber([[maybe_unused]] Fiber& from) {
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &from.bytes);
  from.bottom = static_cast<const std::byte*>(bottom);
#endif
}

}  // namespace hs::cuda_emu
