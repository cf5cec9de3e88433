// Runs CUDA kernels, compiled as C++, on the CPU: one block after another, each thread of a block a
// fiber.
//
// What goes wrong in a kernel throws Fault out of launch(): threads that wait for each other for
// ever, lanes of a warp that meet in different collectives, accesses outside of mapped memory,
// writes beside shared memory, copies that nobody waited for. Data that is not there yet is a NaN.
// Everything runs on the calling OS thread; settings and state belong to it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>

namespace hs::cuda_emu {

// In which order the threads of a block run. In the first two a warp runs until it is stuck before
// the next one does, which is the greatest distance that two warps can have from each other.
enum class Schedule { kAscending, kDescending, kShuffled };

void set_schedule(Schedule schedule, uint64_t seed = 1);

class Fault : public std::runtime_error {
 public:
  // The error is what a GPU would give.
  explicit Fault(const std::string& text, cudaError_t error = cudaErrorLaunchFailure)
      : std::runtime_error(text), error_(error) {}
  cudaError_t error() const { return error_; }

 private:
  cudaError_t error_;
};

// What CUDA and the smallest of the supported GPUs (sm_89) allow.
constexpr unsigned kBlockThreadsMax = 1024;
constexpr size_t kSharedBytesMax = 99 * 1024;

// Runs body() as every thread of every block. Blocks are one-dimensional and made of whole warps.
void launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body);

// What is wrong with a launch of this shape on every supported GPU; empty: nothing.
std::string shape_fault(dim3 grid, dim3 block, size_t shared_bytes);

// A parameter of a kernel, with its value. Padding becomes zero: what it happens to hold may look
// like an address.
struct Argument {
  template <typename T>
  Argument(T* parameter, size_t n) : at(parameter), bytes(n) {
#if defined(__has_builtin) && __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(parameter);
#endif
  }
  const void* at;
  size_t bytes;
};
// What launch() of kernels/portable.cuh does. While a FakeMachine lives (fake_runtime.h), the
// kernel goes into the stream; else it runs at once, as above.
cudaError_t launch_on(cudaStream_t stream, const void* entry, dim3 grid, dim3 block,
                      size_t shared_bytes, std::span<const Argument> arguments,
                      std::function<void()> body);
cudaError_t set_kernel_attribute(const void* entry, cudaFuncAttribute attribute, int value);

// Says, for the report of a fault, what lies at an address. For all OS threads.
void set_fault_describer(std::string (*describe)(const void* address));

// How often a thread was resumed on this OS thread since it started.
uint64_t n_resumes();

// For the functions below, which only kernels call.
[[noreturn]] void fail(const char* text, std::source_location where);  // a misaligned address
void wait_for_block(std::source_location where);
std::byte* shared_memory();
int lane_id();

// cp.async: 16 bytes that arrive when the thread waits for their group, n_valid of them from
// `source` and the rest zero. Until then the target is poisoned.
void copy_later(void* target, const void* source, int n_valid, std::source_location where);
void commit_copies();
void wait_for_copies(size_t groups_left);  // all but the newest groups_left groups have arrived

// The data of a warp collective: what each lane brought, and what it gets.
constexpr size_t kLaneBytes = 32;
struct Lanes {
  uint32_t mask = 0;
  alignas(16) std::byte in[32][kLaneBytes];
  alignas(16) std::byte out[32][kLaneBytes];
};
// Waits until every lane of mask is in the same operation; the last to arrive runs combine.
void meet(uint32_t mask, const char* op, const void* in, size_t in_bytes, void* out,
          size_t out_bytes, void (*combine)(Lanes& lanes), std::source_location where);

}  // namespace hs::cuda_emu
