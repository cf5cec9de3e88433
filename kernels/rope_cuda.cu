// One block a token. Its angles are put together once, in shared memory, and serve all heads.
#include "kernels/portable.cuh"
#include "kernels/rope_cuda.h"
#include "kernels/vector.cuh"

namespace hs::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kHeadMax = 256;

// cos and sin of the block's token: (half) each. Both kinds of params name these fields alike.
template <typename Params>
HS_DEVICE void find_angles(const Params& p, int64_t n_tokens, int half, float* angles) {
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kThreads) {
    int axis = 0;
    if (p.n_axes > 1 && i >= p.sections[0]) axis = i < p.sections[0] + p.sections[1] ? 1 : 2;
    const int64_t row = int64_t{p.positions[axis * n_tokens + blockIdx.x]} * half;
    angles[i] = p.cos[row + i];
    angles[half + i] = p.sin[row + i];
  }
  __syncthreads();
}

// Elements i .. i + kN - 1 of both halves of a head; `to` may be `from`.
template <typename T, int kN>
HS_DEVICE void rotate(const T* from, const float* angles, int half, int i, T* to) {
  float a[kN], b[kN], low[kN], high[kN];
  load_floats<T>(from + i, a);
  load_floats<T>(from + half + i, b);
  HS_UNROLL
  for (int j = 0; j < kN; ++j) {
    const float c = angles[i + j], s = angles[half + i + j];
    low[j] = a[j] * c - b[j] * s;
    high[j] = b[j] * c + a[j] * s;
  }
  store_floats<T>(to + i, low);
  store_floats<T>(to + half + i, high);
}

template <typename T, int kN>
__global__ void __launch_bounds__(kThreads) rope_append_kernel(RopeAppendParams p) {
  const int d = p.layout.d_head, half = d / 2, per_head = half / kN;
  float* angles = shared_as<float>();
  find_angles(p, p.n_tokens, half, angles);
  T* row = static_cast<T*>(p.qkv) + int64_t{blockIdx.x} * p.qkv_stride;
  const int64_t block = p.slots[blockIdx.x] / p.layout.block_size;
  const auto slot = static_cast<int32_t>(p.slots[blockIdx.x] % p.layout.block_size);
  T* const kv = static_cast<T*>(p.kv);
  const int n_kv = p.layout.n_kv_heads;
  const int n_stored = slot < 0 ? 0 : 2 * n_kv;
  const int n_pieces = (p.n_heads + n_stored) * per_head;
  for (int piece = static_cast<int>(threadIdx.x); piece < n_pieces; piece += kThreads) {
    const int head = piece / per_head, i = piece % per_head * kN;
    T* const from = row + int64_t{head} * d;
    if (head < p.n_heads) {
      rotate<T, kN>(from, angles, half, i, from);
    } else if (head < p.n_heads + n_kv) {
      rotate<T, kN>(from, angles, half, i, kv + p.layout.key_index(block, head - p.n_heads, slot));
    } else {
      using Piece = Pack<T, kN>;
      T* const to = kv + p.layout.value_index(block, head - p.n_heads - n_kv, slot);
      *reinterpret_cast<Piece*>(to + i) = *reinterpret_cast<const Piece*>(from + i);
      *reinterpret_cast<Piece*>(to + half + i) = *reinterpret_cast<const Piece*>(from + half + i);
    }
  }
}

template <typename T, int kN>
__global__ void __launch_bounds__(kThreads) rope_rotate_kernel(RopeRotateParams p) {
  const int half = p.d_head / 2, per_head = half / kN;
  float* angles = shared_as<float>();
  find_angles(p, p.n_rows, half, angles);
  T* row = static_cast<T*>(p.x) + int64_t{blockIdx.x} * p.x_stride;
  for (int piece = static_cast<int>(threadIdx.x); piece < p.n_heads * per_head; piece += kThreads) {
    T* const head = row + int64_t{piece / per_head} * p.d_head;
    rotate<T, kN>(head, angles, half, piece % per_head * kN, head);
  }
}

bool valid_head(int32_t d_head, int32_t n_axes, const int32_t* sections) {
  if (d_head <= 0 || d_head % 2 != 0 || d_head > kHeadMax || n_axes < 1 || n_axes > 3) return false;
  int32_t sum = 0;
  for (int axis = 0; axis < n_axes; ++axis) sum += sections[axis];
  return n_axes == 1 || sum == d_head / 2;
}

size_t angle_bytes(int32_t d_head) {
  return static_cast<size_t>(d_head) * sizeof(float);
}

}  // namespace

cudaError_t rope_append(const RopeAppendParams& params, cudaStream_t stream) {
  const RopeAppendParams& p = params;
  const int32_t d = p.layout.d_head;
  if (!valid_head(d, p.n_axes, p.sections) || p.layout.dtype != p.dtype || p.n_tokens < 0 ||
      p.n_tokens > INT32_MAX || p.n_heads < 0 || p.layout.n_kv_heads <= 0 ||
      p.layout.block_size <= 0) {
    return cudaErrorInvalidValue;
  }
  if (p.n_tokens == 0) return cudaSuccess;
  return with_type(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kN = kPerAccess<T>;
    const bool whole = d / 2 % kN == 0 && in_16_bytes(p.qkv, p.qkv_stride, sizeof(T)) &&
                       in_16_bytes(p.kv, 0, sizeof(T));
    const dim3 grid(static_cast<unsigned>(p.n_tokens));
    return launch(whole ? rope_append_kernel<T, kN> : rope_append_kernel<T, 1>, grid, kThreads,
                  angle_bytes(d), stream, p);
  });
}

cudaError_t rope_rotate(const RopeRotateParams& params, cudaStream_t stream) {
  const RopeRotateParams& p = params;
  if (!valid_head(p.d_head, p.n_axes, p.sections) || p.n_rows < 0 || p.n_rows > INT32_MAX ||
      p.n_heads <= 0) {
    return cudaErrorInvalidValue;
  }
  if (p.n_rows == 0) return cudaSuccess;
  return with_type(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kN = kPerAccess<T>;
    const bool whole = p.d_head / 2 % kN == 0 && in_16_bytes(p.x, p.x_stride, sizeof(T));
    const dim3 grid(static_cast<unsigned>(p.n_rows));
    return launch(whole ? rope_rotate_kernel<T, kN> : rope_rotate_kernel<T, 1>, grid, kThreads,
                  angle_bytes(p.d_head), stream, p);
  });
}

}  // namespace hs::cuda
