// The end of a linear layer: bias, activation, residual, for one row of one panel.
//
// Include only from *_cpu.cpp files and their headers (see simd.h).
#pragma once

#include "kernels/linear.h"
#include "kernels/simd_math.h"
#include "kernels/weight_layout.h"

namespace hs::HS_ISA_NS {

HS_INLINE F32 sigmoid(F32 x) {
  return 1.0F / (1.0F + exp(-x));
}

// erf within 2e-7 absolute: an odd polynomial up to 1, then 1 - e^-q(|x|), where q fits -log(erfc)
// up to 4.2; beyond, erf is 1 in float32. Both are least-squares fits on Chebyshev points, q
// weighted by erfc.
HS_INLINE F32 erf(F32 x) {
  const F32 size = x < F32{} ? -x : x;
  const F32 square = size * size;
  F32 p = splat(7.88249745e-05F);
  p = fma(p, square, splat(-0.000801885501F));
  p = fma(p, square, splat(0.00518931216F));
  p = fma(p, square, splat(-0.0268543288F));
  p = fma(p, square, splat(0.112835974F));
  p = fma(p, square, splat(-0.37612626F));
  p = fma(p, square, splat(1.12837911F));
  const F32 t = min(size, splat(4.2F));
  F32 q = splat(-0.000124341983F);
  q = fma(q, t, splat(0.00230316562F));
  q = fma(q, t, splat(-0.0191426855F));
  q = fma(q, t, splat(0.0972801F));
  q = fma(q, t, splat(0.645029783F));
  q = fma(q, t, splat(1.1228627F));
  q = fma(q, t, splat(0.00139679445F));
  const F32 far = 1.0F - exp(-q);
  return size < splat(1.0F) ? x * p : (x < F32{} ? -far : far);
}

HS_INLINE F32 activate(F32 x, Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return x;
    case Epilogue::kGeluErf:
      return 0.5F * x * (1.0F + erf(x * 0.707106781F));
    case Epilogue::kGeluTanh:  // 0.5 x (1 + tanh(u)) = x sigmoid(2 u)
      return x * sigmoid(1.595769122F * (x + 0.044715F * (x * x * x)));
    case Epilogue::kQuickGelu:
      return x * sigmoid(1.702F * x);
    case Epilogue::kSilu:
      return x * sigmoid(x);
    case Epilogue::kRelu:
      return x < F32{} ? F32{} : x;  // NaN stays NaN
  }
  return x;
}

// Where the results of one panel go.
struct PanelOutput {
  const float* bias = nullptr;  // the panel's first, or null
  float* y = nullptr;           // row 0, the panel's first column
  int64_t y_stride = 0;
  int64_t n_cols = 0;  // <= kPanelRows
  Epilogue epilogue = Epilogue::kNone;
  bool accumulate = false;
};

HS_INLINE PanelOutput panel_output(const LinearParams& params, int64_t panel, int64_t first_row) {
  constexpr int64_t kWidth = WeightLayout::kPanelRows;
  const int64_t col = panel * kWidth;
  const int64_t left = params.weight.out_dim - col;
  return {.bias = params.bias == nullptr ? nullptr : params.bias + col,
          .y = params.y + first_row * params.y_stride + col,
          .y_stride = params.y_stride,
          .n_cols = left < kWidth ? left : kWidth,
          .epilogue = params.epilogue,
          .accumulate = params.accumulate};
}

// One vector of columns of a panel, over all rows. Whole vectors are read and written without a
// mask: a masked store costs several times a plain one on some processors.
template <bool kWhole>
HS_INLINE void finish_columns(const float* sums, int64_t n_rows, const PanelOutput& out,
                              int64_t first, int64_t n) {
  constexpr int64_t kWidth = WeightLayout::kPanelRows;
  F32 bias{};
  if (out.bias != nullptr) bias = kWhole ? load(out.bias + first) : load_n(out.bias + first, n);
  for (int64_t row = 0; row < n_rows; ++row) {
    F32 v = activate(load(sums + row * kWidth + first) + bias, out.epilogue);
    float* y = out.y + row * out.y_stride + first;
    if (out.accumulate) v = (kWhole ? load(y) : load_n(y, n)) + v;
    kWhole ? store(y, v) : store_n(y, v, n);
  }
}

// sums: (n_rows, kPanelRows). One function for every path, so that equal sums give equal results
// bit by bit.
[[gnu::noinline]] static void finish_panel(const float* sums, int64_t n_rows,
                                           const PanelOutput& out) {
  int64_t first = 0;
  for (; first + kLanes <= out.n_cols; first += kLanes) {
    finish_columns<true>(sums, n_rows, out, first, kLanes);
  }
  if (first < out.n_cols) finish_columns<false>(sums, n_rows, out, first, out.n_cols - first);
}

}  // namespace hs::HS_ISA_NS
