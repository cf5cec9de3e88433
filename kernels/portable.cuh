// What CUDA kernels may use of the GPU beyond plain C++, each item once: PTX under nvcc, the
// emulator of tests/cuda_emu under HS_CUDA_EMU. No other file of kernels/ knows that there are two.
//
// PTX here runs on sm_80 and later. Shared memory is dynamic only, blocks are one-dimensional and
// made of whole warps, and kernels are started by launch(). Names that CUDA and the emulator share
// are used as they are: threadIdx, blockIdx, blockDim, gridDim, __syncthreads, __syncwarp,
// __shfl_sync, __shfl_xor_sync, __shfl_up_sync, __ballot_sync.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

#if defined(HS_CUDA_EMU)
#include <source_location>

#include "cuda_emu/built_in.h"
#include "cuda_emu/half.h"
#include "cuda_emu/tensor_core.h"
#define HS_UNROLL
#define HS_NOT_INLINED [[gnu::noinline]]
// A function that reports where it was called.
#define HS_WHERE , std::source_location where = std::source_location::current()
#else
#define HS_UNROLL _Pragma("unroll")
#define HS_NOT_INLINED __noinline__
#define HS_WHERE
#endif
#define HS_DEVICE __device__ __forceinline__
// For large functions that are used more than once or seldom: one copy, called.
#define HS_DEVICE_CALL HS_NOT_INLINED static __device__

namespace hs::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFF;

// Storage of the 16-bit formats; arithmetic is in float32.
struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

HS_DEVICE float to_float(float x) {
  return x;
}
HS_DEVICE float to_float(BF16 x) {
#if defined(HS_CUDA_EMU)
  return cuda_emu::bf16_to_float(x.bits);
#else
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
#endif
}
HS_DEVICE float to_float(F16 x) {
#if defined(HS_CUDA_EMU)
  return cuda_emu::f16_to_float(x.bits);
#else
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#endif
}

// Round to nearest even.
template <typename T>
HS_DEVICE T from_float(float x);
template <>
HS_DEVICE float from_float<float>(float x) {
  return x;
}
template <>
HS_DEVICE BF16 from_float<BF16>(float x) {
#if defined(HS_CUDA_EMU)
  return {cuda_emu::float_to_bf16(x)};
#else
  BF16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#endif
}
template <>
HS_DEVICE F16 from_float<F16>(float x) {
#if defined(HS_CUDA_EMU)
  return {cuda_emu::float_to_f16(x)};
#else
  F16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#endif
}
// The bits of a value that came through float32 unchanged: low half first.
template <typename T>
HS_DEVICE uint32_t pack_two(float low, float high) {
  static_assert(sizeof(T) == 2);
  return from_float<T>(low).bits | static_cast<uint32_t>(from_float<T>(high).bits) << 16;
}

// float32 operations that are never merged into others: the same bits as on the CPU.
HS_DEVICE float mul_exact(float a, float b) {
#if defined(HS_CUDA_EMU)
  return a * b;
#else
  return __fmul_rn(a, b);
#endif
}
HS_DEVICE float add_exact(float a, float b) {
#if defined(HS_CUDA_EMU)
  return a + b;
#else
  return __fadd_rn(a, b);
#endif
}
HS_DEVICE uint32_t float_bits(float x) {
#if defined(HS_CUDA_EMU)
  return std::bit_cast<uint32_t>(x);
#else
  return __float_as_uint(x);
#endif
}
HS_DEVICE float float_of_bits(uint32_t x) {
#if defined(HS_CUDA_EMU)
  return std::bit_cast<float>(x);
#else
  return __uint_as_float(x);
#endif
}
// The upper 64 bits of the product.
HS_DEVICE uint64_t mul_high(uint64_t a, uint64_t b) {
#if defined(HS_CUDA_EMU)
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
#else
  return __umul64hi(a, b);
#endif
}

// Adds to a word of shared memory and returns what stood there.
HS_DEVICE uint32_t add_shared(uint32_t* at, uint32_t value) {
#if defined(HS_CUDA_EMU)
  const uint32_t old = *at;
  *at = old + value;
  return old;
#else
  return atomicAdd(at, value);
#endif
}
HS_DEVICE void add_shared(uint64_t* at, uint64_t value) {
#if defined(HS_CUDA_EMU)
  *at += value;
#else
  atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
#endif
}

// The block's dynamic shared memory, 128-byte aligned.
HS_DEVICE unsigned char* shared_bytes() {
#if defined(HS_CUDA_EMU)
  return reinterpret_cast<unsigned char*>(cuda_emu::shared_memory());
#else
  extern __shared__ __align__(128) unsigned char hs_shared[];
  return hs_shared;
#endif
}
template <typename T>
HS_DEVICE T* shared_as(size_t offset_bytes = 0) {
  return reinterpret_cast<T*>(shared_bytes() + offset_bytes);
}

// 16 bytes of global memory that nobody writes while the kernel runs, 16-byte aligned; zeros, and
// no access, when `valid` is false. Without a branch, so that several loads are in flight.
// load_once_16() is for data that no other block reads (weights, a sequence's keys).
#if defined(HS_CUDA_EMU)
HS_DEVICE uint4 load_16(const void* p, bool valid HS_WHERE) {
  if (!valid) return {0, 0, 0, 0};
  if (reinterpret_cast<uintptr_t>(p) % 16 != 0) {
    cuda_emu::fail("16-byte load of an address that is not aligned", where);
  }
  return *static_cast<const uint4*>(p);
}
HS_DEVICE uint4 load_once_16(const void* p, bool valid HS_WHERE) {
  return load_16(p, valid, where);
}
#else
#define HS_LOAD_16(instruction)                                                               \
  uint4 v;                                                                                    \
  asm volatile(                                                                               \
      "{.reg .pred %%p; setp.ne.s32 %%p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0;" \
      " mov.u32 %3, 0; @%%p " instruction " {%0, %1, %2, %3}, [%4];}"                         \
      : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)                                        \
      : "l"(p), "r"(static_cast<int>(valid)));                                                \
  return v
HS_DEVICE uint4 load_16(const void* p, bool valid) {
  HS_LOAD_16("ld.global.nc.v4.u32");
}
HS_DEVICE uint4 load_once_16(const void* p, bool valid) {
  HS_LOAD_16("ld.global.nc.L1::no_allocate.v4.u32");
}
#undef HS_LOAD_16
#endif

// Copies 16 bytes from global to shared memory without waiting; 16 zeros when `valid` is false
// (`from` must then still be a mapped address). See cp.async in the PTX ISA.
HS_DEVICE void copy_async_16(void* to, const void* from, bool valid HS_WHERE) {
#if defined(HS_CUDA_EMU)
  cuda_emu::copy_later(to, from, valid ? 16 : 0, where);
#else
  const int n = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(n)
               : "memory");
#endif
}
HS_DEVICE void commit_async() {
#if defined(HS_CUDA_EMU)
  cuda_emu::commit_copies();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// The thread's own copies have arrived, but for the newest kGroupsLeft committed groups. Other
// threads see them after a barrier.
template <int kGroupsLeft>
HS_DEVICE void wait_async() {
#if defined(HS_CUDA_EMU)
  cuda_emu::wait_for_copies(kGroupsLeft);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
#endif
}

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
HS_DEVICE void load_matrices(uint32_t (&to)[4], const void* row HS_WHERE) {
#if defined(HS_CUDA_EMU)
  cuda_emu::load_matrices(to, row, false, where);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
#endif
}
HS_DEVICE void load_matrices_transposed(uint32_t (&to)[4], const void* row HS_WHERE) {
#if defined(HS_CUDA_EMU)
  cuda_emu::load_matrices(to, row, true, where);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
#endif
}

// d (16 x 8, float32) += a (16 x 16) * b (16 x 8) on the tensor cores; register layouts as in the
// PTX ISA, mma.m16n8k16.
template <typename T>
HS_DEVICE void multiply_tiles(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                              uint32_t b1 HS_WHERE) {
  static_assert(std::is_same_v<T, BF16> || std::is_same_v<T, F16>);
  constexpr bool kBrain = std::is_same_v<T, BF16>;
#if defined(HS_CUDA_EMU)
  const auto multiply = kBrain ? cuda_emu::multiply_tiles_bf16 : cuda_emu::multiply_tiles_f16;
  multiply(d, a, b0, b1, where);
#else
  if constexpr (kBrain) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#endif
}

// Starts a kernel; the arguments are converted to its parameters' types.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, unsigned n_threads,
                   size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  constexpr size_t kWithoutAsking = size_t{48} << 10;
  const auto* const entry = reinterpret_cast<const void*>(kernel);
  if (shared_bytes > kWithoutAsking) {
#if defined(HS_CUDA_EMU)
    using cuda_emu::set_kernel_attribute;
#else
    const auto set_kernel_attribute = [](auto... a) { return cudaFuncSetAttribute(a...); };
#endif
    const cudaError_t status = set_kernel_attribute(
        entry, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (status != cudaSuccess) return status;
  }
  return [&](Parameters... parameters) {
#if defined(HS_CUDA_EMU)
    const cuda_emu::Argument list[] = {{&parameters, sizeof parameters}...};
    return cuda_emu::launch_on(stream, entry, grid, dim3(n_threads), shared_bytes, list,
                               [=] { kernel(parameters...); });
#else
    void* pointers[] = {static_cast<void*>(&parameters)...};
    return cudaLaunchKernel(entry, grid, dim3(n_threads), pointers, shared_bytes, stream);
#endif
  }(static_cast<Parameters>(arguments)...);
}

}  // namespace hs::cuda
