// A product with few rows is bound by reading the weight: each byte is read once, in 16-byte
// pieces, several steps ahead.
//
// A warp multiplies 16 weight rows with 8 rows of x in mma.m16n8k16, with the weight on the left.
// The order of the sum over in_dim is free as long as both sides agree: a lane's 8 neighbouring
// elements stand for its places in two mma steps, so the registers of a 16-byte load are the
// fragments. The 8 warps of a block take turns along in_dim and add up through shared memory at the
// end.
#include "kernels/activation.cuh"
#include "kernels/linear_cuda.h"
#include "kernels/portable.cuh"
#include "kernels/vector.cuh"

namespace hs::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kStep = 32;  // elements of in_dim that a warp takes at a time, 8 a lane
constexpr int kAhead = 4;  // steps whose loads are in flight
constexpr int kOutTile = 16;
constexpr int kRowTile = 8;

// Eight elements at `at`, zeros beyond the row's end, or for all when the row is not there. kWhole:
// rows begin at 16 bytes and consist of whole pieces.
template <typename T, bool kWhole, bool kOnce>
HS_DEVICE uint4 load_piece(const T* row, int64_t at, int64_t n, bool there) {
  if constexpr (kWhole) {
    const bool valid = there && at < n;
    return kOnce ? load_once_16(row + at, valid) : load_16(row + at, valid);
  }
  uint32_t words[4] = {};
  HS_UNROLL
  for (int i = 0; i < 8; ++i) {
    if (there && at + i < n) words[i / 2] |= uint32_t{row[at + i].bits} << i % 2 * 16;
  }
  return {words[0], words[1], words[2], words[3]};
}

template <typename T, bool kWhole>
HS_DEVICE uint4 load_weight(const LinearParams& p, int64_t row, int64_t at) {
  const int64_t index = (row < p.out_dim ? row : p.out_dim - 1) * p.in_dim;
  return load_piece<T, kWhole, true>(static_cast<const T*>(p.weight) + index, at, p.in_dim, true);
}

// Sums of the block's warps: (kWarps, row of x, output).
template <int kOut, int kRows>
HS_DEVICE float& sum_at(float* area, int warp, int row, int out) {
  return area[(warp * kRows * kRowTile + row) * kOut * kOutTile + out];
}

// The block's outputs, one thread each: adds the warps up, ends the layer.
template <typename T, int kOut, int kRows>
HS_DEVICE void finish(const LinearParams& p, float* area) {
  constexpr int kOutputs = kOut * kOutTile;
  for (int i = static_cast<int>(threadIdx.x); i < kOutputs * kRows * kRowTile; i += kThreads) {
    const int row = i / kOutputs;
    const int64_t out = int64_t{blockIdx.x} * kOutputs + i % kOutputs;
    if (row >= p.n_rows || out >= p.out_dim) continue;
    float sum = 0;
    HS_UNROLL
    for (int w = 0; w < kWarps; ++w) sum += sum_at<kOut, kRows>(area, w, row, i % kOutputs);
    if (p.bias != nullptr) sum += p.bias[out];
    sum = activate(sum, p.epilogue);
    const int64_t at = row * p.y_stride + out;
    if (p.y_dtype == DType::kF32) {
      float* y = static_cast<float*>(p.y) + at;
      *y = p.accumulate ? *y + sum : sum;
    } else {
      T* y = static_cast<T*>(p.y) + at;
      *y = from_float<T>(p.accumulate ? to_float(*y) + sum : sum);
    }
  }
}

// kOut * 16 outputs a block, kRows * 8 rows of x.
template <typename T, int kOut, int kRows, bool kWhole>
__global__ void __launch_bounds__(kThreads) few_rows_kernel(LinearParams p) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t first_out = int64_t{blockIdx.x} * kOut * kOutTile + lane / 4;
  const T* const x = static_cast<const T*>(p.x);
  float sums[kOut][kRows][4] = {};
  const int64_t n_steps = (p.in_dim + kStep - 1) / kStep;
  for (int64_t step = warp; step < n_steps; step += kWarps * kAhead) {
    uint4 w[kAhead][kOut][2], rows[kAhead][kRows];
    HS_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      // Beyond the last step: zeros.
      const int64_t at = (step + int64_t{a} * kWarps) * kStep + lane % 4 * 8;
      HS_UNROLL
      for (int o = 0; o < kOut; ++o) {
        HS_UNROLL
        for (int i = 0; i < 2; ++i) {
          w[a][o][i] = load_weight<T, kWhole>(p, first_out + o * kOutTile + i * 8, at);
        }
      }
      HS_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const int64_t row = r * kRowTile + lane / 4;
        rows[a][r] =
            load_piece<T, kWhole, false>(x + row * p.x_stride, at, p.in_dim, row < p.n_rows);
      }
    }
    HS_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      HS_UNROLL
      for (int o = 0; o < kOut; ++o) {
        const uint4 top = w[a][o][0], low = w[a][o][1];
        HS_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const uint4 b = rows[a][r];
          multiply_tiles<T>(sums[o][r], {top.x, low.x, top.y, low.y}, b.x, b.y);
          multiply_tiles<T>(sums[o][r], {top.z, low.z, top.w, low.w}, b.z, b.w);
        }
      }
    }
  }
  float* const area = shared_as<float>();
  HS_UNROLL
  for (int o = 0; o < kOut; ++o) {
    HS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      HS_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int out = o * kOutTile + lane / 4 + i / 2 * 8,
                  row = r * kRowTile + lane % 4 * 2 + i % 2;
        sum_at<kOut, kRows>(area, warp, row, out) = sums[o][r][i];
      }
    }
  }
  __syncthreads();
  finish<T, kOut, kRows>(p, area);
}

// kOut is 2 where a block's rows of x take as many loads as its weights.
template <typename T, int kOut, int kRows>
cudaError_t launch_rows(const LinearParams& p, bool whole, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(div_up(p.out_dim, kOut * kOutTile)));
  constexpr size_t kShared = size_t{kWarps} * kOut * kOutTile * kRows * kRowTile * sizeof(float);
  return launch(
      whole ? few_rows_kernel<T, kOut, kRows, true> : few_rows_kernel<T, kOut, kRows, false>, grid,
      kThreads, kShared, stream, p);
}

template <typename T>
cudaError_t with_rows(const LinearParams& p, cudaStream_t stream) {
  const bool whole =
      p.in_dim % 8 == 0 && in_16_bytes(p.x, p.x_stride, sizeof(T)) && in_16_bytes(p.weight, 0, 1);
  return p.n_rows <= kRowTile ? launch_rows<T, 1, 1>(p, whole, stream)
                              : launch_rows<T, 2, 2>(p, whole, stream);
}

}  // namespace

cudaError_t few_rows_linear(const LinearParams& p, cudaStream_t stream) {
  constexpr int64_t kMost = INT32_MAX;
  if (p.n_rows < 0 || p.n_rows > kFewRowsMax || p.out_dim <= 0 || p.out_dim > kMost ||
      p.in_dim <= 0 || (p.y_dtype != DType::kF32 && p.y_dtype != p.dtype)) {
    return cudaErrorInvalidValue;
  }
  return with_half_type(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    return p.n_rows == 0 ? cudaSuccess : with_rows<T>(p, stream);
  });
}

}  // namespace hs::cuda
