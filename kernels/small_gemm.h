// C (+)= A B for a few rows of A, with B row-major and cache-resident: the inner product of both
// attention passes.
//
// An element of C is one chain of multiply-adds over k, ascending, whatever the number of rows or
// columns computed beside it; so the result of a row does not depend on its neighbours.
#pragma once

#include "kernels/simd.h"

namespace hs::HS_ISA_NS {

struct SmallGemm {
  int64_t k_len = 0;
  const float* a = nullptr;  // (rows, k_len)
  int64_t lda = 0;
  const float* b = nullptr;  // (k_len, cols), cols a multiple of kLanes
  int64_t ldb = 0;
  float* c = nullptr;  // (rows, cols)
  int64_t ldc = 0;
  bool accumulate = false;
};

// R rows times V vectors of columns, all of it in registers. Not inlined: the compiler then cannot
// fuse a neighbouring product into the chain.
template <int R, int V>
[[gnu::noinline]] static void gemm_tile(const SmallGemm& g, const float* a, const float* b,
                                        float* c) {
  F32 acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      acc[r][v] = g.accumulate ? load(c + r * g.ldc + v * kLanes) : F32{};
    }
  }
  const int64_t k_len = g.k_len, lda = g.lda, ldb = g.ldb;
  for (int64_t k = 0; k < k_len; ++k) {
    F32 row[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) row[v] = load(b + k * ldb + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32 x = splat(a[r * lda + k]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) acc[r][v] = fma(x, row[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store(c + r * g.ldc + v * kLanes, acc[r][v]);
  }
}

// All columns of R rows.
template <int R>
static void gemm_rows(const SmallGemm& g, const float* a, int64_t cols, float* c) {
  constexpr int kWide = R == 1   ? 8
                        : R <= 3 ? 4
                                 : 2;  // enough chains to hide the latency of an addition
  int64_t n = 0;
  for (; n + kWide * kLanes <= cols; n += kWide * kLanes) {
    gemm_tile<R, kWide>(g, a, g.b + n, c + n);
  }
  for (; n + 2 * kLanes <= cols; n += 2 * kLanes) gemm_tile<R, 2>(g, a, g.b + n, c + n);
  for (; n < cols; n += kLanes) gemm_tile<R, 1>(g, a, g.b + n, c + n);
}

constexpr int64_t kGemmRows = 6;

static void small_gemm(const SmallGemm& g, int64_t rows, int64_t cols) {
  int64_t r = 0;
  // Columns outside, so that one panel of B stays in the first-level cache while all rows pass.
  for (int64_t n = 0; n < cols && rows >= kGemmRows; n += 2 * kLanes) {
    const bool pair = n + 2 * kLanes <= cols;
    for (r = 0; r + kGemmRows <= rows; r += kGemmRows) {
      const float* a = g.a + r * g.lda;
      float* c = g.c + r * g.ldc + n;
      if (pair) {
        gemm_tile<kGemmRows, 2>(g, a, g.b + n, c);
      } else {
        gemm_tile<kGemmRows, 1>(g, a, g.b + n, c);
      }
    }
  }
  const float* a = g.a + r * g.lda;
  float* c = g.c + r * g.ldc;
  switch (rows - r) {
    case 1:
      return gemm_rows<1>(g, a, cols, c);
    case 2:
      return gemm_rows<2>(g, a, cols, c);
    case 3:
      return gemm_rows<3>(g, a, cols, c);
    case 4:
      return gemm_rows<4>(g, a, cols, c);
    case 5:
      return gemm_rows<5>(g, a, cols, c);
    default:
      return;
  }
}

}  // namespace hs::HS_ISA_NS
