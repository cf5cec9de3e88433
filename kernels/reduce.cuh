// Sums and maxima over a warp or a block, in an order that depends on the block's size alone. Every
// thread gets the result.
#pragma once

#include "kernels/portable.cuh"

namespace hs::cuda {

constexpr int kWarpsMax = 32;

struct Sum {
  template <typename T>
  HS_DEVICE static T combine(T a, T b) {
    return a + b;
  }
};
struct Max {
  template <typename T>
  HS_DEVICE static T combine(T a, T b) {
    return a > b ? a : b;
  }
};

// Over groups of kLanes neighbouring lanes.
template <typename Op, int kLanes = kWarp, typename T>
HS_DEVICE T reduce_lanes(T value) {
  HS_UNROLL
  for (int apart = kLanes / 2; apart > 0; apart /= 2) {
    value = Op::combine(value, __shfl_xor_sync(kAllLanes, value, apart));
  }
  return value;
}

// `area` is shared memory for kWarpsMax values; it may be used again after the block's next
// barrier.
template <typename Op, typename T>
HS_DEVICE T reduce_block(T value, T none, T* area) {
  const int n_warps = static_cast<int>(blockDim.x) / kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  value = reduce_lanes<Op>(value);
  if (n_warps == 1) return value;
  if (lane == 0) area[warp] = value;
  __syncthreads();
  return reduce_lanes<Op>(lane < n_warps ? area[lane] : none);
}

}  // namespace hs::cuda
