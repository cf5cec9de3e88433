// Execution contexts that hand over to each other by name: every thread of an emulated block is
// one. x86-64 System V only; a switch saves the callee-saved registers and nothing else.
#pragma once

#include <cstddef>

namespace hs::cuda_emu {

// A stack with an unmapped page below it.
class FiberStack {
 public:
  explicit FiberStack(size_t bytes);
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;
  FiberStack(FiberStack&& other) noexcept;
  FiberStack& operator=(FiberStack&&) = delete;
  ~FiberStack();

  std::byte* bottom() const { return bottom_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* mapping_ = nullptr;
  size_t mapped_ = 0;
  std::byte* bottom_ = nullptr;
  size_t bytes_ = 0;
};

// A context that is not running: where its registers are saved. The stack belongs to somebody else;
// a context may be dropped at any time, what lies on its stack is then never unwound.
struct Fiber {
  void* stack_pointer = nullptr;
  void* sanitizer_stack = nullptr;  // AddressSanitizer's, while it is switched away
  const std::byte* bottom = nullptr;
  size_t bytes = 0;
};

// The stack is used anew: tells AddressSanitizer to forget frames that were never left.
void forget_frames(const FiberStack& stack);

// A fiber that calls entry() when it is first switched to; entry must not return.
Fiber make_fiber(const FiberStack& stack, void (*entry)());

// Saves the running context in `from` and continues `to`.
void switch_fiber(Fiber& from, Fiber& to);

// To be called first in a fiber's entry: `from` is the context that switched to it.
void entered_fiber(Fiber& from);

}  // namespace hs::cuda_emu
