#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/linear.h"
#include "kernels/weight_layout.h"

namespace hs {
namespace {

constexpr int64_t kRows = WeightLayout::kPanelRows;
constexpr int64_t kChunk = 128;  // elements of a row converted at a time; even

float f16_to_f32(uint16_t half) {
  // Exponent and mantissa in float32 places; the product corrects the bias and normalises
  // subnormals.
  const auto shifted = std::bit_cast<float>((uint32_t{half} & 0x7FFFU) << 13);
  uint32_t bits = std::bit_cast<uint32_t>(shifted * 0x1p112F);
  bits |= (half & 0x7C00) == 0x7C00 ? 0x7F800000U : 0U;
  return std::bit_cast<float>(bits | (uint32_t{half} & 0x8000U) << 16);
}

float bf16_to_f32(uint16_t half) {
  return std::bit_cast<float>(uint32_t{half} << 16);
}

// Round to nearest, ties to even; NaN stays NaN.
uint16_t f32_to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>(x != x ? (bits >> 16) | 0x40 : rounded);
}

void to_f32(const std::byte* source, DType dtype, int64_t n, float* target) {
  if (dtype == DType::kF32) {
    std::memcpy(target, source, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  uint16_t halves[kChunk];
  std::memcpy(halves, source, static_cast<size_t>(n) * sizeof(uint16_t));
  if (dtype == DType::kF16) {
    for (int64_t i = 0; i < n; ++i) target[i] = f16_to_f32(halves[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) target[i] = bf16_to_f32(halves[i]);
  }
}

void to_bf16(const std::byte* source, DType dtype, int64_t n, uint16_t* target) {
  if (dtype == DType::kBF16) {
    std::memcpy(target, source, static_cast<size_t>(n) * sizeof(uint16_t));
    return;
  }
  float wide[kChunk];
  to_f32(source, dtype, n, wide);
  for (int64_t i = 0; i < n; ++i) target[i] = f32_to_bf16(wide[i]);
}

struct PackJob {
  WeightLayout layout;
  std::byte* packed = nullptr;
  int64_t first_row = 0;
  int64_t end_row = 0;
  const std::byte* source = nullptr;
  DType source_dtype = DType::kF32;
};

// Lane by lane, a chunk of k at a time: the chunk of the panel stays in the first-level cache until
// all of its lanes are written.
void pack_panel(const PackJob& job, int64_t panel) {
  const WeightLayout& layout = job.layout;
  const int64_t first = std::max(panel * kRows, job.first_row);
  const int64_t end = std::min((panel + 1) * kRows, job.end_row);
  const size_t source_bytes = dtype_bytes(job.source_dtype);
  for (int64_t k = 0; k < layout.in_dim; k += kChunk) {
    const int64_t n = std::min(kChunk, layout.in_dim - k);
    for (int64_t row = first; row < end; ++row) {
      const std::byte* source =
          job.source +
          static_cast<size_t>((row - job.first_row) * layout.in_dim + k) * source_bytes;
      if (layout.dtype == DType::kF32) {
        float wide[kChunk];
        to_f32(source, job.source_dtype, n, wide);
        float* target = reinterpret_cast<float*>(job.packed) + layout.index(row, k);
        for (int64_t i = 0; i < n; ++i) target[i * kRows] = wide[i];
      } else {
        uint16_t halves[kChunk];
        to_bf16(source, job.source_dtype, n, halves);
        if (n % 2 != 0) halves[n] = 0;
        std::byte* target =
            job.packed + static_cast<size_t>(layout.index(row, k)) * sizeof(uint16_t);
        for (int64_t i = 0; i < n; i += 2) {
          std::memcpy(target + i * kRows * 2, halves + i, 4);
        }
      }
    }
  }
}

}  // namespace

size_t packed_weight_bytes(DType dtype, int64_t out_dim, int64_t in_dim) {
  return WeightLayout{dtype, out_dim, in_dim}.bytes();
}

void pack_weight_rows_cpu(void* packed, DType dtype, int64_t out_dim, int64_t in_dim,
                          int64_t first_row, int64_t n_rows, const void* src, DType src_dtype,
                          Team& team) {
  HS_CHECK(dtype == DType::kF32 || dtype == DType::kBF16);
  HS_CHECK(src_dtype == DType::kF32 || src_dtype == DType::kF16 || src_dtype == DType::kBF16);
  HS_CHECK_GE(first_row, 0);
  HS_CHECK_LE(first_row + n_rows, out_dim);
  if (n_rows <= 0) return;
  const PackJob job{.layout = {dtype, out_dim, in_dim},
                    .packed = static_cast<std::byte*>(packed),
                    .first_row = first_row,
                    .end_row = first_row + n_rows,
                    .source = static_cast<const std::byte*>(src),
                    .source_dtype = src_dtype};
  const int64_t first_panel = first_row / kRows;
  const int64_t n_panels = (first_row + n_rows - 1) / kRows - first_panel + 1;
  team.run(n_panels, [&](int64_t item, int) { pack_panel(job, first_panel + item); });
}

}  // namespace hs
