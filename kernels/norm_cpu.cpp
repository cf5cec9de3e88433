#include "kernels/norm.h"
#include "kernels/row_work.h"
#include "kernels/simd_math.h"

namespace hs::HS_ISA_NS {
namespace {

// Sums of f(x) over a row: four vectors of partial sums, so an addition does not wait for the one
// before, and an error of about dim / (4 kLanes) roundings.
template <typename F>
HS_INLINE float sum_row(const float* x, int64_t dim, const F& f) {
  F32 s0{}, s1{}, s2{}, s3{};
  int64_t i = 0;
  for (; i + 4 * kLanes <= dim; i += 4 * kLanes) {
    s0 += f(load(x + i));
    s1 += f(load(x + i + kLanes));
    s2 += f(load(x + i + 2 * kLanes));
    s3 += f(load(x + i + 3 * kLanes));
  }
  for (; i + kLanes <= dim; i += kLanes) s0 += f(load(x + i));
  if (i < dim) {
    const F32 tail = f(load_n(x + i, dim - i));
    s1 += lane_numbers() < static_cast<int32_t>(dim - i) ? tail : F32{};
  }
  return sum((s0 + s1) + (s2 + s3));
}

void rms_norm_row(const NormParams& p, const float* x, float* y) {
  const float square_sum = sum_row(x, p.dim, [](F32 v) { return v * v; });
  const float mean = square_sum / static_cast<float>(p.dim);
  const F32 inverse = splat(1.0F / __builtin_sqrtf(mean + p.eps));
  int64_t i = 0;
  for (; i + kLanes <= p.dim; i += kLanes) {
    store(y + i, load(x + i) * inverse * load(p.weight + i));
  }
  if (const int64_t n = p.dim - i; n > 0) {
    store_n(y + i, load_n(x + i, n) * inverse * load_n(p.weight + i, n), n);
  }
}

void layer_norm_row(const NormParams& p, const float* x, float* y) {
  const auto dim = static_cast<float>(p.dim);
  const F32 mean = splat(sum_row(x, p.dim, [](F32 v) { return v; }) / dim);
  const float var = sum_row(x, p.dim, [mean](F32 v) { return (v - mean) * (v - mean); }) / dim;
  const F32 inverse = splat(1.0F / __builtin_sqrtf(var + p.eps));
  int64_t i = 0;
  for (; i + kLanes <= p.dim; i += kLanes) {
    const F32 bias = p.bias != nullptr ? load(p.bias + i) : F32{};
    store(y + i, (load(x + i) - mean) * inverse * load(p.weight + i) + bias);
  }
  if (const int64_t n = p.dim - i; n > 0) {
    const F32 bias = p.bias != nullptr ? load_n(p.bias + i, n) : F32{};
    store_n(y + i, (load_n(x + i, n) - mean) * inverse * load_n(p.weight + i, n) + bias, n);
  }
}

}  // namespace

void rms_norm_cpu(const NormParams& params, Team& team) {
  run_rows(team, params.n_rows, params.dim, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      rms_norm_row(params, params.x + r * params.x_stride, params.y + r * params.y_stride);
    }
  });
}

void layer_norm_cpu(const NormParams& params, Team& team) {
  run_rows(team, params.n_rows, params.dim, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      layer_norm_row(params, params.x + r * params.x_stride, params.y + r * params.y_stride);
    }
  });
}

}  // namespace hs::HS_ISA_NS
