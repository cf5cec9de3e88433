// The built-in variables and functions of CUDA C++ that kernels use, for the host compiler.
// kernels/portable.cuh includes this; nothing else of a kernel knows about the emulator.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstring>
#include <source_location>

#include "cuda_emu/emulator.h"

#undef __launch_bounds__
#define __launch_bounds__(...)
// Static shared memory could not be poisoned between blocks.
#undef __shared__
#define __shared__ shared_memory_must_be_dynamic

// Variables and not macros: cudaLaunchConfig_t has members of the same names.
extern thread_local uint3 threadIdx;
extern thread_local uint3 blockIdx;
extern thread_local dim3 blockDim;
extern thread_local dim3 gridDim;

namespace hs::cuda_emu {

template <typename T>
T get_lane(const std::byte (&lane)[kLaneBytes]) {
  static_assert(sizeof(T) <= kLaneBytes);
  T value;
  std::memcpy(&value, lane, sizeof value);
  return value;
}

// What a shuffle brings, and from which lane it wants to read.
template <typename T>
struct Shuffled {
  T value;
  int from;
};

template <typename T>
T shuffle(uint32_t mask, const char* op, T value, int from, std::source_location where) {
  const Shuffled<T> in{value, from};
  T out;
  meet(
      mask, op, &in, sizeof in, &out, sizeof out,
      [](Lanes& lanes) {
        for (int i = 0; i < 32; ++i) {
          if ((lanes.mask >> i & 1) == 0) continue;
          const auto wanted = get_lane<Shuffled<T>>(lanes.in[i]);
          // What a lane outside of the mask holds is undefined.
          if ((lanes.mask >> wanted.from & 1) == 0) {
            std::memset(lanes.out[i], 0xFF, sizeof(T));
          } else {
            std::memcpy(lanes.out[i], lanes.in[wanted.from], sizeof(T));
          }
        }
      },
      where);
  return out;
}

}  // namespace hs::cuda_emu

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  hs::cuda_emu::wait_for_block(where);
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFF,
                       std::source_location where = std::source_location::current()) {
  hs::cuda_emu::meet(mask, "__syncwarp", nullptr, 0, nullptr, 0, nullptr, where);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes,
                  std::source_location where = std::source_location::current()) {
  return hs::cuda_emu::shuffle(mask, "__shfl_xor_sync", value, hs::cuda_emu::lane_id() ^ lanes,
                               where);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane,
              std::source_location where = std::source_location::current()) {
  return hs::cuda_emu::shuffle(mask, "__shfl_sync", value, lane & 31, where);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes,
                 std::source_location where = std::source_location::current()) {
  const int self = hs::cuda_emu::lane_id(), from = self - static_cast<int>(lanes);
  return hs::cuda_emu::shuffle(mask, "__shfl_up_sync", value, from < 0 ? self : from, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location where = std::source_location::current()) {
  const int in = predicate != 0;
  unsigned out = 0;
  hs::cuda_emu::meet(
      mask, "__ballot_sync", &in, sizeof in, &out, sizeof out,
      [](hs::cuda_emu::Lanes& lanes) {
        unsigned votes = 0;
        for (int i = 0; i < 32; ++i) {
          if ((lanes.mask >> i & 1) == 0) continue;
          votes |= static_cast<unsigned>(hs::cuda_emu::get_lane<int>(lanes.in[i])) << i;
        }
        for (auto& lane : lanes.out) std::memcpy(lane, &votes, sizeof votes);
      },
      where);
  return out;
}

inline float rsqrtf(float x) {
  return 1.0F / std::sqrt(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
