#include "kernels/row_work.h"
#include "kernels/rows.h"
#include "kernels/simd_math.h"
#include "kernels/weight_layout.h"

namespace hs::HS_ISA_NS {
namespace {

void copy_row(const float* from, float* to, int64_t dim) {
  std::memcpy(to, from, static_cast<size_t>(dim) * sizeof(float));
}

void widen_f16_row(const uint16_t* from, float* to, int64_t dim) {
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) store(to + i, load_f16(from + i));
  if (i < dim) store_n(to + i, load_f16_n(from + i, dim - i), dim - i);
}

void widen_bf16_row(const uint16_t* from, float* to, int64_t dim) {
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) store(to + i, load_bf16(from + i));
  if (i < dim) store_n(to + i, load_bf16_n(from + i, dim - i), dim - i);
}

void embed_row(const EmbedParams& p, int64_t id, float* y) {
  switch (p.dtype) {
    case DType::kF16:
      return widen_f16_row(static_cast<const uint16_t*>(p.table) + id * p.dim, y, p.dim);
    case DType::kBF16:
      return widen_bf16_row(static_cast<const uint16_t*>(p.table) + id * p.dim, y, p.dim);
    default:
      return copy_row(static_cast<const float*>(p.table) + id * p.dim, y, p.dim);
  }
}

// A row is scattered over its panel: one element, or a pair, in each step.
void embed_packed_row(const PackedWeight& table, int64_t id, float* y) {
  const WeightLayout layout{table.dtype, table.out_dim, table.in_dim};
  if (table.dtype == DType::kF32) {
    const auto* from = static_cast<const float*>(table.data);
    for (int64_t k = 0; k < table.in_dim; ++k) y[k] = from[layout.index(id, k)];
    return;
  }
  const auto* from = static_cast<const uint16_t*>(table.data);
  for (int64_t k = 0; k < table.in_dim; ++k) {
    const uint32_t bits = uint32_t{from[layout.index(id, k)]} << 16U;
    std::memcpy(y + k, &bits, sizeof bits);
  }
}

void add_row(float* y, const float* x, int64_t dim) {
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) store(y + i, load(y + i) + load(x + i));
  if (const int64_t n = dim - i; n > 0) store_n(y + i, load_n(y + i, n) + load_n(x + i, n), n);
}

// Elements first .. last - 1.
void add_parts(const AddPartsParams& p, int64_t first, int64_t last) {
  int64_t i = first;
  for (; i + kLanes <= last; i += kLanes) {
    auto sum = load(p.parts[0] + i);
    for (int64_t part = 1; part < p.n_parts; ++part) sum = sum + load(p.parts[part] + i);
    store(p.y + i, load(p.y + i) + sum);
  }
  const int64_t n = last - i;
  if (n == 0) return;
  auto sum = load_n(p.parts[0] + i, n);
  for (int64_t part = 1; part < p.n_parts; ++part) sum = sum + load_n(p.parts[part] + i, n);
  store_n(p.y + i, load_n(p.y + i, n) + sum, n);
}

}  // namespace

void embed_cpu(const EmbedParams& params, Team& team) {
  run_rows(team, params.n_rows, params.dim, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      if (params.ids[r] >= 0) embed_row(params, params.ids[r], params.y + r * params.dim);
    }
  });
}

void embed_packed_cpu(const EmbedPackedParams& params, Team& team) {
  const int64_t dim = params.table.in_dim;
  run_rows(team, params.n_rows, dim, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      if (params.ids[r] >= 0) embed_packed_row(params.table, params.ids[r], params.y + r * dim);
    }
  });
}

void gather_rows_cpu(const GatherRowsParams& params, Team& team) {
  run_rows(team, params.n_rows, params.dim, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* from = params.x + params.index[r] * params.x_stride;
      copy_row(from, params.y + r * params.dim, params.dim);
    }
  });
}

void add_rows_cpu(const AddRowsParams& params, Team& team) {
  run_rows(team, params.n_rows, params.dim, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      add_row(params.y + r * params.dim, params.table + r % params.period * params.dim, params.dim);
    }
  });
}

void add_parts_cpu(const AddPartsParams& params, Team& team) {
  run_rows(team, params.n_rows, params.dim, [&](int64_t first, int64_t last) {
    add_parts(params, first * params.dim, last * params.dim);
  });
}

}  // namespace hs::HS_ISA_NS
