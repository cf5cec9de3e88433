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

// sum += x * w, rounded once where there is FMA. Written as an instruction because the compiler,
// left to itself, lets the sums wander between registers when two parts of a step follow each
// other, and then spills them.
HS_INLINE void fma_in_place(F32 x, F32 w, F32& sum) {
#if defined(__AVX512F__)
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
#elif defined(__FMA__)
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(w));
#else
  sum = fma(x, w, sum);
#endif
}

// How weights are read and multiplied. X: an element of x as kept in chunks, kKPerX of k; kParts:
// elements of x in a step.
struct F32Weights {
  using X = float;
  using Vector = F32;
  static constexpr int kParts = 1;
  static constexpr int kKPerX = 1;
  static constexpr bool kXIsFloat = true;
  static constexpr DType kDType = DType::kF32;
  HS_INLINE Vector load_part(const std::byte* w, int) {
    Vector v;
    std::memcpy(&v, w, sizeof v);
    return v;
  }
  HS_INLINE Vector repeat(X x) { return splat(x); }
  HS_INLINE void multiply_add(Vector x, Vector w, F32& sum) { fma_in_place(x, w, sum); }
  HS_INLINE X element(const float* x, int64_t, int64_t k) { return x[k]; }
};

// bf16 weights, float32 arithmetic.
struct Bf16Weights {
  using X = float;
  using Vector = F32;
  static constexpr int kParts = 2;
  static constexpr int kKPerX = 1;
  static constexpr bool kXIsFloat = true;
  static constexpr DType kDType = DType::kBF16;
  HS_INLINE Vector load_part(const std::byte* w, int part) {
    U32 words;
    std::memcpy(&words, w, sizeof words);
    words = part == 0 ? words << 16 : words & 0xFFFF0000U;
    return reinterpret_cast<Vector>(words);
  }
  HS_INLINE Vector repeat(X x) { return splat(x); }
  HS_INLINE void multiply_add(Vector x, Vector w, F32& sum) { fma_in_place(x, w, sum); }
  HS_INLINE X element(const float* x, int64_t, int64_t k) { return x[k]; }
};

template <typename W>
struct TileArgs {
  const W::X* x = nullptr;       // (n_x, R): the rows' elements side by side, one stream to read
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

// Panels whose weights are held in registers together.
constexpr int panels_at_once(int panels) {
  return kLanes == 16 ? panels : 1;
}

// One part of a step: the vectors of some panels, then each row's element times each of them.
template <typename W, int R, int P>
HS_INLINE void tile_part(const TileArgs<W>& args, const typename W::X* x, const std::byte* w,
                         int part, F32 (&acc)[R][P * kPanelVectors]) {
  constexpr int kGroup = panels_at_once(P) * kPanelVectors;
#pragma GCC unroll 16
  for (int first = 0; first < P * kPanelVectors; first += kGroup) {
    typename W::Vector wide[kGroup];
#pragma GCC unroll 16
    for (int v = 0; v < kGroup; ++v) {
      wide[v] = W::load_part(w + (first + v) / kPanelVectors * args.panel_bytes +
                                 v % kPanelVectors * static_cast<int64_t>(sizeof(F32)),
                             part);
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const typename W::Vector repeated = W::repeat(x[part * R + r]);
#pragma GCC unroll 16
      for (int v = 0; v < kGroup; ++v) W::multiply_add(repeated, wide[v], acc[r][first + v]);
    }
  }
}

// A step with what is fetched beside it.
template <typename W, int R, int P>
HS_INLINE void tile_step(const TileArgs<W>& args, const typename W::X* x, const std::byte* w,
                         const std::byte* next, F32 (&acc)[R][P * kPanelVectors]) {
  if constexpr (P > 1) {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) __builtin_prefetch(next + p * args.panel_bytes, 0, 3);
  } else {
    __builtin_prefetch(next, 0, 2);
  }
#pragma GCC unroll 2
  for (int part = 0; part < W::kParts; ++part) tile_part<W, R, P>(args, x, w, part, acc);
}

// Steps in a round of the loop: four k. A core that is shared with a second thread is given fewer
// instructions a cycle, and then those of the loop itself cost what multiply-adds could take.
template <typename W, int P>
constexpr int unrolled_steps() {
  return kLanes == 16 || P > 1 ? 1 : 4 / (W::kParts * W::kKPerX);
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
  constexpr int kUnrolled = unrolled_steps<W, P>();
  int64_t steps = args.n_x / W::kParts;
  for (; steps >= kUnrolled; steps -= kUnrolled) {
#pragma GCC unroll 4
    for (int s = 0; s < kUnrolled; ++s) {
      tile_step<W, R, P>(args, x + s * W::kParts * R, w + s * kStepBytes, next, acc);
      next += args.next_bytes;
    }
    x += kUnrolled * W::kParts * R;
    w += kUnrolled * kStepBytes;
  }
  for (; kUnrolled > 1 && steps > 0; --steps) {
    tile_step<W, R, P>(args, x, w, next, acc);
    next += args.next_bytes;
    x += W::kParts * R;
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
