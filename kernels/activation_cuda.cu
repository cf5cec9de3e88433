#include "kernels/activation.cuh"
#include "kernels/activation_cuda.h"
#include "kernels/portable.cuh"
#include "kernels/vector.cuh"

namespace hs::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A thread takes kN neighbouring columns of one row; blockIdx.y and its strides go over the rows.
template <typename T, int kN>
__global__ void __launch_bounds__(kThreads) gated_kernel(GatedParams p) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kN;
  if (at >= p.dim) return;
  for (int64_t row = blockIdx.y; row < p.n_rows; row += gridDim.y) {
    const T* gate = static_cast<const T*>(p.gate_up) + row * 2 * p.dim + at;
    float g[kN], u[kN];
    load_floats<T>(gate, g);
    load_floats<T>(gate + p.dim, u);
    HS_UNROLL
    for (int i = 0; i < kN; ++i) u[i] *= activate(g[i], p.activation);
    store_floats<T>(static_cast<T*>(p.y) + row * p.dim + at, u);
  }
}

template <typename T, int kN>
__global__ void __launch_bounds__(kThreads) bias_activation_kernel(BiasActivationParams p) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kN;
  if (at >= p.dim) return;
  float bias[kN];
  HS_UNROLL
  for (int i = 0; i < kN; ++i) bias[i] = p.bias != nullptr ? p.bias[at + i] : 0.0F;
  for (int64_t row = blockIdx.y; row < p.n_rows; row += gridDim.y) {
    T* y = static_cast<T*>(p.y) + row * p.y_stride + at;
    float v[kN], before[kN] = {};
    load_floats<T>(static_cast<const T*>(p.x) + row * p.x_stride + at, v);
    if (p.accumulate) load_floats<T>(y, before);
    HS_UNROLL
    for (int i = 0; i < kN; ++i) v[i] = before[i] + activate(v[i] + bias[i], p.activation);
    store_floats<T>(y, v);
  }
}

dim3 grid_for(int64_t n_rows, int64_t dim, int per_thread) {
  constexpr int64_t kRowsMax = 32768;
  return dim3(static_cast<unsigned>(div_up(dim, int64_t{kThreads} * per_thread)),
              static_cast<unsigned>(n_rows < kRowsMax ? n_rows : kRowsMax));
}

}  // namespace

cudaError_t gated_activation(const GatedParams& params, cudaStream_t stream) {
  const GatedParams& p = params;
  if (p.n_rows < 0 || p.dim <= 0) return cudaErrorInvalidValue;
  if (p.n_rows == 0) return cudaSuccess;
  return with_type(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kN = kPerAccess<T>;
    const bool whole =
        in_16_bytes(p.gate_up, p.dim, sizeof(T)) && in_16_bytes(p.y, p.dim, sizeof(T));
    return whole
               ? launch(gated_kernel<T, kN>, grid_for(p.n_rows, p.dim, kN), kThreads, 0, stream, p)
               : launch(gated_kernel<T, 1>, grid_for(p.n_rows, p.dim, 1), kThreads, 0, stream, p);
  });
}

cudaError_t bias_activation(const BiasActivationParams& params, cudaStream_t stream) {
  const BiasActivationParams& p = params;
  if (p.n_rows < 0 || p.dim <= 0) return cudaErrorInvalidValue;
  if (p.n_rows == 0) return cudaSuccess;
  return with_type(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kN = kPerAccess<T>;
    const bool whole = p.dim % kN == 0 && in_16_bytes(p.x, p.x_stride, sizeof(T)) &&
                       in_16_bytes(p.y, p.y_stride, sizeof(T));
    return whole ? launch(bias_activation_kernel<T, kN>, grid_for(p.n_rows, p.dim, kN), kThreads, 0,
                          stream, p)
                 : launch(bias_activation_kernel<T, 1>, grid_for(p.n_rows, p.dim, 1), kThreads, 0,
                          stream, p);
  });
}

}  // namespace hs::cuda
