// The inner loop of a linear layer: R rows of x times P panels of weights, all sums in registers.
//
// A sum is one chain of multiply-adds over k, ascending from zero; where k is cut into chunks the
// chain is stored and taken up again, which is exact. So a sum does not depend on which rows or
// panels stand beside it. Include only from *_cpu.cpp files and their headers (see simd.h).
#pragma once

#include <cstddef>

#include "kernels/simd.h"
#include "kernels/weight_layout.h"

namespace hs::HS_ISA_NS {

constexpr int kPanelVectors = static_cast<int>(WeightLayout::kPanelRows) / kLanes;
constexpr int64_t kStepBytes = 64;  // of a panel; one k in float32, two in bf16

// How weights are read and multiplied. X: an element of x as kept in chunks, kKPerX of k; kParts:
// elements of x in a step.
struct F32Weights {
  using X = float;
  using Vector = F32;
  static constexpr int kParts = 1;
  static constexpr int kKPerX = 1;
  static constexpr DType kDType = DType::kF32;
  HS_INLINE Vector load_part(const std::byte* w, int) {
    Vector v;
    std::memcpy(&v, w, sizeof v);
    return v;
  }
  HS_INLINE Vector repeat(X x) { return splat(x); }
  HS_INLINE F32 multiply_add(Vector x, Vector w, F32 sum) { return fma(x, w, sum); }
  HS_INLINE void pack_row(const float* x, int64_t n, X* packed) {
    std::memcpy(packed, x, static_cast<size_t>(n) * sizeof *x);
  }
};

// bf16 weights, float32 arithmetic.
struct Bf16Weights {
  using X = float;
  using Vector = F32;
  static constexpr int kParts = 2;
  static constexpr int kKPerX = 1;
  static constexpr DType kDType = DType::kBF16;
  HS_INLINE Vector load_part(const std::byte* w, int part) {
    U32 words;
    std::memcpy(&words, w, sizeof words);
    words = part == 0 ? words << 16 : words & 0xFFFF0000U;
    return reinterpret_cast<Vector>(words);
  }
  HS_INLINE Vector repeat(X x) { return splat(x); }
  HS_INLINE F32 multiply_add(Vector x, Vector w, F32 sum) { return fma(x, w, sum); }
  HS_INLINE void pack_row(const float* x, int64_t n, X* packed) {
    std::memcpy(packed, x, static_cast<size_t>(n) * sizeof *x);
  }
};

template <typename W>
struct TileArgs {
  const typename W::X* x = nullptr;  // (R, n_x), rows x_stride apart
  int64_t x_stride = 0;
  int64_t n_x = 0;               // elements of x in this chunk of k
  const std::byte* w = nullptr;  // the chunk's first step in the first panel
  int64_t panel_bytes = 0;       // from one panel to the next
  float* sums = nullptr;         // (P, rows, kPanelRows), panels sums_stride apart
  int64_t sums_stride = 0;
  bool resume = false;  // go on from sums instead of zero
  // What is needed next is fetched on the side: next_bytes more at each step.
  const std::byte* next = nullptr;
  int64_t next_bytes = 0;
};

// One part of a step: the vectors of all panels, then each row's element times each of them.
template <typename W, int R, int P>
HS_INLINE void tile_part(const TileArgs<W>& args, const typename W::X* x, const std::byte* w,
                         int part, F32 (&acc)[R][P * kPanelVectors]) {
  typename W::Vector wide[P * kPanelVectors];
#pragma GCC unroll 16
  for (int v = 0; v < P * kPanelVectors; ++v) {
    wide[v] = W::load_part(w + v / kPanelVectors * args.panel_bytes +
                               v % kPanelVectors * static_cast<int64_t>(sizeof(F32)),
                           part);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const typename W::Vector repeated = W::repeat(x[r * args.x_stride + part]);
#pragma GCC unroll 16
    for (int v = 0; v < P * kPanelVectors; ++v) {
      acc[r][v] = W::multiply_add(repeated, wide[v], acc[r][v]);
    }
  }
}

template <typename W, int R, int P>
[[gnu::noinline]] static void tile(const TileArgs<W>& given) {
  const TileArgs<W> args = given;
  F32 acc[R][P * kPanelVectors];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < P * kPanelVectors; ++v) {
      const float* sums = args.sums + v / kPanelVectors * args.sums_stride +
                          r * WeightLayout::kPanelRows + v % kPanelVectors * kLanes;
      acc[r][v] = args.resume ? load(sums) : F32{};
    }
  }
  const typename W::X* x = args.x;
  const std::byte* w = args.w;
  const std::byte* next = args.next;
  for (int64_t step = args.n_x / W::kParts; step > 0; --step) {
    if constexpr (P > 1) {
#pragma GCC unroll 16
      for (int p = 0; p < P; ++p) __builtin_prefetch(next + p * args.panel_bytes, 0, 3);
    } else {
      __builtin_prefetch(next, 0, 2);
    }
    next += args.next_bytes;
#pragma GCC unroll 2
    for (int part = 0; part < W::kParts; ++part) tile_part<W, R, P>(args, x, w, part, acc);
    x += W::kParts;
    w += kStepBytes;
  }
  if (args.n_x % W::kParts != 0) tile_part<W, R, P>(args, x, w, 0, acc);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < P * kPanelVectors; ++v) {
      store(args.sums + v / kPanelVectors * args.sums_stride + r * WeightLayout::kPanelRows +
                v % kPanelVectors * kLanes,
            acc[r][v]);
    }
  }
}

}  // namespace hs::HS_ISA_NS
