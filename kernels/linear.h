// Linear layer: y = epilogue(x * W^T + bias) (+ y).
//
// W is given as PyTorch stores it, (out_dim, in_dim) row-major, and packed once at load into the
// layout the CPU kernels stream. Each output element is summed over in_dim in the same order
// whatever n_rows is, so a row's result does not depend on the batch it is computed in, at every
// instruction set. The bf16 units round x to bf16 as well, so their results differ from those of
// the other levels: see linear_avx512bf16_cpu.cpp and linear_amx_cpu.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/team.h"

namespace hs {

enum class Epilogue { kNone, kGeluErf, kGeluTanh, kQuickGelu, kSilu, kRelu };

// A weight matrix in packed form. Borrows its bytes.
struct PackedWeight {
  DType dtype = DType::kF32;  // kF32 or kBF16: how the weights are stored
  int64_t out_dim = 0;
  int64_t in_dim = 0;
  const void* data = nullptr;  // packed_weight_bytes() bytes, 64-byte aligned
};

// Bytes a packed (out_dim, in_dim) weight takes; rows are padded to the panel width.
size_t packed_weight_bytes(DType dtype, int64_t out_dim, int64_t in_dim);

// Packs rows [first_row, first_row + n_rows) of a larger packed weight from src (n_rows, in_dim)
// row-major, so that q, k and v (or gate and up) become one matrix. src_dtype: kF32, kF16 or kBF16.
// first_row and n_rows are free. Padding rows beyond out_dim are zero once every row has been
// packed into zeroed memory.
void pack_weight_rows_cpu(void* packed, DType dtype, int64_t out_dim, int64_t in_dim,
                          int64_t first_row, int64_t n_rows, const void* src, DType src_dtype,
                          Team& team);

struct LinearParams {
  const float* x = nullptr;     // (n_rows, in_dim), rows x_stride apart
  PackedWeight weight;          // (out_dim, in_dim)
  const float* bias = nullptr;  // (out_dim) or null
  float* y = nullptr;           // (n_rows, out_dim), rows y_stride apart; must not overlap x
  int64_t n_rows = 0;
  int64_t x_stride = 0;  // in floats, >= in_dim
  int64_t y_stride = 0;  // in floats, >= out_dim
  Epilogue epilogue = Epilogue::kNone;
  bool accumulate = false;  // add the result to y (residual) instead of overwriting it
};

void linear_cpu(const LinearParams& params, Team& team);

}  // namespace hs
