// A block moves a part of a row; rows go over blockIdx.x, the parts over blockIdx.y.
#include "kernels/portable.cuh"
#include "kernels/rows_cuda.h"
#include "kernels/vector.cuh"

namespace hs::cuda {
namespace {

constexpr unsigned kThreads = 128;

// The first column of this thread.
template <int kN>
HS_DEVICE int64_t my_column() {
  return (int64_t{blockIdx.y} * kThreads + threadIdx.x) * kN;
}

template <typename From, typename To, int kN>
__global__ void __launch_bounds__(kThreads) embed_kernel(EmbedParams p) {
  const int64_t at = my_column<kN>(), id = p.ids[blockIdx.x];
  if (at >= p.dim || id < 0) return;
  float v[kN];
  load_floats<From>(static_cast<const From*>(p.table) + id * p.dim + at, v);
  store_floats<To>(static_cast<To*>(p.y) + int64_t{blockIdx.x} * p.dim + at, v);
}

template <typename T, int kN>
__global__ void __launch_bounds__(kThreads) gather_kernel(GatherRowsParams p) {
  const int64_t at = my_column<kN>();
  if (at >= p.dim) return;
  using Piece = Pack<T, kN>;
  const int64_t row = p.index != nullptr ? p.index[blockIdx.x] : int64_t{blockIdx.x};
  const T* from = static_cast<const T*>(p.x) + row * p.x_stride + at;
  T* to = static_cast<T*>(p.y) + int64_t{blockIdx.x} * p.y_stride + at;
  *reinterpret_cast<Piece*>(to) = *reinterpret_cast<const Piece*>(from);
}

template <typename T, int kN>
__global__ void __launch_bounds__(kThreads) add_kernel(AddRowsParams p) {
  const int64_t at = my_column<kN>();
  if (at >= p.dim) return;
  T* y = static_cast<T*>(p.y) + int64_t{blockIdx.x} * p.dim + at;
  float sum[kN], more[kN];
  load_floats<T>(y, sum);
  load_floats<T>(static_cast<const T*>(p.table) + blockIdx.x % p.period * p.dim + at, more);
  HS_UNROLL
  for (int i = 0; i < kN; ++i) sum[i] += more[i];
  store_floats<T>(y, sum);
}

template <typename T, int kN>
__global__ void __launch_bounds__(kThreads) add_parts_kernel(AddPartsParams p) {
  const int64_t column = my_column<kN>();
  if (column >= p.dim) return;
  const int64_t at = int64_t{blockIdx.x} * p.dim + column;
  float sum[kN], more[kN];
  load_floats<T>(static_cast<const T*>(p.parts[0]) + at, sum);
  for (int part = 1; part < p.n_parts; ++part) {
    load_floats<T>(static_cast<const T*>(p.parts[part]) + at, more);
    HS_UNROLL
    for (int i = 0; i < kN; ++i) sum[i] += more[i];
  }
  T* const y = static_cast<T*>(p.y) + at;
  load_floats<T>(y, more);
  HS_UNROLL
  for (int i = 0; i < kN; ++i) sum[i] += more[i];
  store_floats<T>(y, sum);
}

bool valid(int64_t n_rows, int64_t dim) {
  return n_rows >= 0 && n_rows <= INT32_MAX && dim > 0;
}

dim3 grid_for(int64_t n_rows, int64_t dim, int per_thread) {
  return dim3(static_cast<unsigned>(n_rows),
              static_cast<unsigned>(div_up(dim, int64_t{kThreads} * per_thread)));
}

}  // namespace

cudaError_t embed(const EmbedParams& params, cudaStream_t stream) {
  const EmbedParams& p = params;
  if (!valid(p.n_rows, p.dim)) return cudaErrorInvalidValue;
  if (p.n_rows == 0) return cudaSuccess;
  return with_type(p.table_dtype, [&](auto from) {
    return with_type(p.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      constexpr int kN = kPerAccess<float>;  // at most 16 bytes on either side
      const bool whole =
          in_16_bytes(p.table, p.dim, sizeof(From)) && in_16_bytes(p.y, p.dim, sizeof(To));
      return launch(whole ? embed_kernel<From, To, kN> : embed_kernel<From, To, 1>,
                    grid_for(p.n_rows, p.dim, whole ? kN : 1), kThreads, 0, stream, p);
    });
  });
}

cudaError_t gather_rows(const GatherRowsParams& params, cudaStream_t stream) {
  const GatherRowsParams& p = params;
  if (!valid(p.n_rows, p.dim)) return cudaErrorInvalidValue;
  if (p.n_rows == 0) return cudaSuccess;
  return with_type(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kN = kPerAccess<T>;
    const bool whole = p.dim % kN == 0 && in_16_bytes(p.x, p.x_stride, sizeof(T)) &&
                       in_16_bytes(p.y, p.y_stride, sizeof(T));
    return launch(whole ? gather_kernel<T, kN> : gather_kernel<T, 1>,
                  grid_for(p.n_rows, p.dim, whole ? kN : 1), kThreads, 0, stream, p);
  });
}

cudaError_t add_rows(const AddRowsParams& params, cudaStream_t stream) {
  const AddRowsParams& p = params;
  if (!valid(p.n_rows, p.dim) || p.period <= 0) return cudaErrorInvalidValue;
  if (p.n_rows == 0) return cudaSuccess;
  return with_type(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kN = kPerAccess<T>;
    const bool whole = in_16_bytes(p.y, p.dim, sizeof(T)) && in_16_bytes(p.table, p.dim, sizeof(T));
    return launch(whole ? add_kernel<T, kN> : add_kernel<T, 1>,
                  grid_for(p.n_rows, p.dim, whole ? kN : 1), kThreads, 0, stream, p);
  });
}

cudaError_t add_parts(const AddPartsParams& params, cudaStream_t stream) {
  const AddPartsParams& p = params;
  if (!valid(p.n_rows, p.dim) || p.n_parts < 1 || p.n_parts > AddPartsParams::kPartsMax) {
    return cudaErrorInvalidValue;
  }
  if (p.n_rows == 0) return cudaSuccess;
  return with_type(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kN = kPerAccess<T>;
    bool whole = in_16_bytes(p.y, p.dim, sizeof(T));
    for (int part = 0; part < p.n_parts; ++part) {
      whole = whole && in_16_bytes(p.parts[part], p.dim, sizeof(T));
    }
    return launch(whole ? add_parts_kernel<T, kN> : add_parts_kernel<T, 1>,
                  grid_for(p.n_rows, p.dim, whole ? kN : 1), kThreads, 0, stream, p);
  });
}

}  // namespace hs::cuda
