#include "cuda_emu/fake_cublaslt_product.h"

#include <cmath>
#include <cstring>

#include "cuda_emu/half.h"

namespace hs::cuda_emu::blas {
namespace {

// Rows that are contiguous in the inner dimension, padded to whole lanes.
constexpr size_t kLanes = 8;

struct Rows {
  std::vector<float> values;
  size_t pitch = 0;
};

// As many rows as op(m) has columns or rows: element (i, k) stands at i * step + k * inner_step.
Rows unpack(const Matrix& m, size_t n, size_t inner, size_t step, size_t inner_step) {
  Rows rows{.values = {}, .pitch = (inner + kLanes - 1) / kLanes * kLanes};
  rows.values.assign(n * rows.pitch, 0.0F);
  for (size_t i = 0; i < n; ++i) {
    float* to = rows.values.data() + i * rows.pitch;
    for (size_t k = 0; k < inner; ++k) to[k] = element(m.data, m.type, i * step + k * inner_step);
  }
  return rows;
}

float dot(const float* a, const float* b, size_t n) {
  float sums[2 * kLanes] = {};
  size_t k = 0;
  for (; k + 2 * kLanes <= n; k += 2 * kLanes) {
    for (size_t i = 0; i < 2 * kLanes; ++i) sums[i] += a[k + i] * b[k + i];
  }
  for (; k < n; k += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) sums[i] += a[k + i] * b[k + i];
  }
  float sum = 0;
  for (const float s : sums) sum += s;
  return sum;
}

}  // namespace

size_t type_bytes(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return sizeof(float);
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return sizeof(uint16_t);
    default:
      return 0;
  }
}

size_t span_bytes(const Matrix& m) {
  if (m.rows == 0 || m.cols == 0) return 0;
  return ((m.cols - 1) * m.ld + m.rows) * type_bytes(m.type);
}

float element(const void* data, cudaDataType type, size_t i) {
  if (type == CUDA_R_32F) {
    float value = 0;
    std::memcpy(&value, static_cast<const std::byte*>(data) + i * sizeof value, sizeof value);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(data) + i * sizeof bits, sizeof bits);
  return type == CUDA_R_16F ? f16_to_float(bits) : bf16_to_float(bits);
}

void set_element(void* data, cudaDataType type, size_t i, float value) {
  if (type == CUDA_R_32F) {
    std::memcpy(static_cast<std::byte*>(data) + i * sizeof value, &value, sizeof value);
    return;
  }
  const uint16_t bits = type == CUDA_R_16F ? float_to_f16(value) : float_to_bf16(value);
  std::memcpy(static_cast<std::byte*>(data) + i * sizeof bits, &bits, sizeof bits);
}

std::vector<float> product(const Matrix& a, bool transpose_a, const Matrix& b, bool transpose_b) {
  const size_t n_rows = transpose_a ? a.cols : a.rows, inner = transpose_a ? a.rows : a.cols;
  const size_t n_cols = transpose_b ? b.rows : b.cols;
  const Rows left =
      transpose_a ? unpack(a, n_rows, inner, a.ld, 1) : unpack(a, n_rows, inner, 1, a.ld);
  const Rows right =
      transpose_b ? unpack(b, n_cols, inner, 1, b.ld) : unpack(b, n_cols, inner, b.ld, 1);
  std::vector<float> result(n_rows * n_cols);
  for (size_t row = 0; row < n_rows; ++row) {
    const float* from = left.values.data() + row * left.pitch;
    for (size_t col = 0; col < n_cols; ++col) {
      result[col * n_rows + row] = dot(from, right.values.data() + col * right.pitch, left.pitch);
    }
  }
  return result;
}

float gelu_tanh(float x) {
  constexpr float kRootTwoByPi = 0.7978845608F, kCubic = 0.044715F;
  return 0.5F * x * (1.0F + std::tanh(kRootTwoByPi * (x + kCubic * x * x * x)));
}

}  // namespace hs::cuda_emu::blas
