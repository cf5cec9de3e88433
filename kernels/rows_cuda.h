// Moving and adding rows on a GPU (kernels/rows.h): token embeddings, gathers, position embeddings,
// sums of parts. Moves are exact; a sum is rounded to dtype once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"

namespace hs::cuda {

// All pointers are device memory; dtypes are kF32, kF16 or kBF16.

// y[i] = table[ids[i]] converted to dtype; an id of -1 leaves row i alone (an image row goes
// there).
struct EmbedParams {
  DType table_dtype = DType::kBF16;
  DType dtype = DType::kBF16;    // of y
  const void* table = nullptr;   // (vocab, dim)
  const int32_t* ids = nullptr;  // (n_rows), each < vocab
  void* y = nullptr;             // (n_rows, dim)
  int64_t n_rows = 0;
  int64_t dim = 0;
};
cudaError_t embed(const EmbedParams& params, cudaStream_t stream);

// y[i] = x[index[i]]. x may stand on another device whose memory this one reads.
struct GatherRowsParams {
  DType dtype = DType::kBF16;
  const void* x = nullptr;         // rows x_stride apart
  const int32_t* index = nullptr;  // (n_rows) or null: y[i] = x[i]
  void* y = nullptr;               // (n_rows, dim), rows y_stride apart
  int64_t n_rows = 0;
  int64_t dim = 0;
  int64_t x_stride = 0;  // in elements
  int64_t y_stride = 0;
};
cudaError_t gather_rows(const GatherRowsParams& params, cudaStream_t stream);

// y[i] += table[i % period].
struct AddRowsParams {
  DType dtype = DType::kBF16;
  void* y = nullptr;            // (n_rows, dim)
  const void* table = nullptr;  // (period, dim)
  int64_t n_rows = 0;
  int64_t dim = 0;
  int64_t period = 0;
};
cudaError_t add_rows(const AddRowsParams& params, cudaStream_t stream);

// y += parts[0] + parts[1] + ..., added up in this order in float32 and rounded once. Parts may
// stand on other devices whose memory this one reads.
struct AddPartsParams {
  static constexpr int kPartsMax = 16;
  DType dtype = DType::kBF16;
  const void* parts[kPartsMax] = {};  // (n_rows, dim) each
  int32_t n_parts = 0;                // 1 .. kPartsMax
  void* y = nullptr;                  // (n_rows, dim)
  int64_t n_rows = 0;
  int64_t dim = 0;
};
cudaError_t add_parts(const AddPartsParams& params, cudaStream_t stream);

}  // namespace hs::cuda
