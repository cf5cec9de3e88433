// Where the elements of a packed weight stand.
//
// Output rows are taken 16 at a time: a panel. Inside a panel the 16 rows lie side by side, step by
// step along in_dim, so that a kernel streams a panel from its first byte to its last:
//   kF32:  [panel][k][16 rows]
//   kBF16: [panel][k / 2][16 rows][k % 2]
// A bf16 step is then 64 bytes that serve each kind of kernel: as 32-bit words the even elements
// are `word << 16` and the odd ones `word & 0xFFFF0000` (float32 arithmetic), a word is an operand
// of VDPBF16PS, and 16 steps are an AMX tile in its pair order. For whole tiles k is padded with
// zeros to a multiple of 32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace hs {

struct WeightLayout {
  static constexpr int64_t kPanelRows = 16;
  static constexpr int64_t kBf16Pad = 32;

  DType dtype = DType::kF32;
  int64_t out_dim = 0;
  int64_t in_dim = 0;

  constexpr int64_t n_panels() const { return (out_dim + kPanelRows - 1) / kPanelRows; }
  // in_dim with its padding.
  constexpr int64_t padded_in_dim() const {
    return dtype == DType::kBF16 ? (in_dim + kBf16Pad - 1) / kBf16Pad * kBf16Pad : in_dim;
  }
  constexpr int64_t panel_elements() const { return padded_in_dim() * kPanelRows; }
  constexpr size_t panel_bytes() const {
    return static_cast<size_t>(panel_elements()) * dtype_bytes(dtype);
  }
  constexpr size_t bytes() const { return static_cast<size_t>(n_panels()) * panel_bytes(); }

  // Of the weight from input k to output row.
  constexpr int64_t index(int64_t row, int64_t k) const {
    const int64_t panel = row / kPanelRows * panel_elements();
    const int64_t lane = row % kPanelRows;
    if (dtype == DType::kBF16) return panel + (k / 2 * kPanelRows + lane) * 2 + k % 2;
    return panel + k * kPanelRows + lane;
  }
};

}  // namespace hs
