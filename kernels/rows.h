// Moving and adding rows: token embedding lookup, gathers, position embeddings.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "kernels/linear.h"
#include "kernels/team.h"

namespace hs {

// y[i] = table[ids[i]] converted to float32; an id of -1 leaves row i alone (an image row goes
// there).
struct EmbedParams {
  const void* table = nullptr;  // (vocab, dim), kF32, kF16 or kBF16
  DType dtype = DType::kF32;
  const int32_t* ids = nullptr;  // (n_rows)
  float* y = nullptr;            // (n_rows, dim)
  int64_t n_rows = 0;
  int64_t dim = 0;
};
void embed_cpu(const EmbedParams& params, Team& team);

// The same with the rows of a packed weight as the table. Exact.
struct EmbedPackedParams {
  PackedWeight table;            // (vocab, dim)
  const int32_t* ids = nullptr;  // (n_rows)
  float* y = nullptr;            // (n_rows, dim)
  int64_t n_rows = 0;
};
void embed_packed_cpu(const EmbedPackedParams& params, Team& team);

// y[i] = x[index[i]], rows of dim floats.
struct GatherRowsParams {
  const float* x = nullptr;        // rows x_stride apart
  const int32_t* index = nullptr;  // (n_rows)
  float* y = nullptr;              // (n_rows, dim)
  int64_t n_rows = 0;
  int64_t dim = 0;
  int64_t x_stride = 0;  // in floats
};
void gather_rows_cpu(const GatherRowsParams& params, Team& team);

// y[i] += table[i % period], rows of dim floats (learned position embeddings of packed pictures).
struct AddRowsParams {
  float* y = nullptr;            // (n_rows, dim)
  const float* table = nullptr;  // (period, dim)
  int64_t n_rows = 0;
  int64_t dim = 0;
  int64_t period = 0;
};
void add_rows_cpu(const AddRowsParams& params, Team& team);

// y[i] += parts[0][i] + parts[1][i] + ... + parts[n_parts - 1][i]: the parts of a sum that several
// devices share. They are added up in this order before their sum is added to y.
struct AddPartsParams {
  const float* const* parts = nullptr;  // (n_parts) matrices of (n_rows, dim)
  int64_t n_parts = 0;                  // >= 1
  float* y = nullptr;                   // (n_rows, dim)
  int64_t n_rows = 0;
  int64_t dim = 0;
};
void add_parts_cpu(const AddPartsParams& params, Team& team);

}  // namespace hs
