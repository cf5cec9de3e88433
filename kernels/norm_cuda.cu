// One block a row, which it reads once and holds in registers.
#include "kernels/norm_cuda.h"
#include "kernels/portable.cuh"
#include "kernels/reduce.cuh"
#include "kernels/vector.cuh"

namespace hs::cuda {
namespace {

constexpr int kThreadsMax = 1024;
constexpr int kDimMax = 16384;

// Elements (i * blockDim + thread) * kN .. + kN - 1 are held[i]. Beyond the row: zeros.
template <typename T, int kN, int kHeld>
HS_DEVICE void load_row(const NormParams& p, float (&held)[kHeld][kN]) {
  const T* x = static_cast<const T*>(p.x) + int64_t{blockIdx.x} * p.x_stride;
  HS_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const int64_t at = (int64_t{i} * blockDim.x + threadIdx.x) * kN;
    HS_UNROLL
    for (int j = 0; j < kN; ++j) held[i][j] = 0;
    if (at < p.dim) load_floats<T>(x + at, held[i]);
  }
}

template <typename T, int kN, int kHeld, bool kLayer>
HS_DEVICE void store_row(const NormParams& p, const float (&held)[kHeld][kN], float mean,
                         float inverse) {
  T* y = static_cast<T*>(p.y) + int64_t{blockIdx.x} * p.y_stride;
  HS_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const int64_t at = (int64_t{i} * blockDim.x + threadIdx.x) * kN;
    if (at >= p.dim) continue;
    float out[kN];
    HS_UNROLL
    for (int j = 0; j < kN; ++j) {
      out[j] = (held[i][j] - mean) * inverse * p.weight[at + j];
      if (kLayer && p.bias != nullptr) out[j] += p.bias[at + j];
    }
    store_floats<T>(y + at, out);
  }
}

template <typename T, int kN, int kHeld, bool kLayer>
__global__ void __launch_bounds__(kThreadsMax) norm_kernel(NormParams p) {
  float held[kHeld][kN];
  load_row<T>(p, held);
  float* area = shared_as<float>();
  const auto dim = static_cast<float>(p.dim);
  float mean = 0;
  if constexpr (kLayer) {
    float sum = 0;
    HS_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      HS_UNROLL
      for (int j = 0; j < kN; ++j) sum += held[i][j];
    }
    mean = reduce_block<Sum>(sum, 0.0F, area) / dim;
  }
  float squares = 0;
  HS_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const int64_t at = (int64_t{i} * blockDim.x + threadIdx.x) * kN;
    HS_UNROLL
    for (int j = 0; j < kN; ++j) {
      const float from_mean = held[i][j] - mean;
      if (at < p.dim) squares += from_mean * from_mean;
    }
  }
  squares = reduce_block<Sum>(squares, 0.0F, area + kWarpsMax);
  store_row<T, kN, kHeld, kLayer>(p, held, mean, 1.0F / sqrtf(squares / dim + p.eps));
}

template <typename T, int kN, bool kLayer>
cudaError_t launch_norm(const NormParams& p, cudaStream_t stream) {
  const int64_t accesses = div_up(p.dim, kN);
  const int64_t held = div_up(accesses, kThreadsMax);
  const auto threads = static_cast<unsigned>(div_up(div_up(accesses, held), kWarp) * kWarp);
  const dim3 grid(static_cast<unsigned>(p.n_rows));
  constexpr size_t kShared = 2 * kWarpsMax * sizeof(float);
  if (held == 1) return launch(norm_kernel<T, kN, 1, kLayer>, grid, threads, kShared, stream, p);
  if (held == 2) return launch(norm_kernel<T, kN, 2, kLayer>, grid, threads, kShared, stream, p);
  if constexpr (4 * kN * kThreadsMax <= kDimMax) {
    if (held <= 4) return launch(norm_kernel<T, kN, 4, kLayer>, grid, threads, kShared, stream, p);
  }
  return cudaErrorInvalidValue;
}

template <bool kLayer>
cudaError_t norm(const NormParams& p, cudaStream_t stream) {
  if (p.n_rows < 0 || p.n_rows > INT32_MAX || p.dim <= 0 || p.weight == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (p.n_rows == 0) return cudaSuccess;
  return with_type(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool whole = p.dim % kPerAccess<T> == 0 && in_16_bytes(p.x, p.x_stride, sizeof(T)) &&
                       in_16_bytes(p.y, p.y_stride, sizeof(T));
    return whole ? launch_norm<T, kPerAccess<T>, kLayer>(p, stream)
                 : launch_norm<T, 1, kLayer>(p, stream);
  });
}

}  // namespace

cudaError_t rms_norm(const NormParams& params, cudaStream_t stream) {
  return norm<false>(params, stream);
}

cudaError_t layer_norm(const NormParams& params, cudaStream_t stream) {
  return norm<true>(params, stream);
}

}  // namespace hs::cuda
