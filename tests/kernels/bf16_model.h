// A model of the few AVX512-BF16 and AMX instructions that the linear kernels use, as Intel's
// Software Developer's Manual and Architecture Instruction Set Extensions reference define them, so
// that the kernels' logic runs on any machine. Kernels include it in place of their inline assembly
// (HS_INSTRUCTION_MODEL).
//
// Strict where hardware would fault: a tile that is not configured, or shapes that do not fit, end
// the test.
#pragma once

#include <cmath>
#include <cstring>

#include "base/check.h"

namespace hs::HS_ISA_NS {

// Subnormal operands and results count as zero (DAZ and FTZ are on whatever MXCSR says).
inline float model_flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
}
inline float model_bf16(uint32_t half) {
  const uint32_t bits = half << 16;
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return model_flush(x);
}
inline float model_fma(float a, float b, float sum) {
  return model_flush(std::fma(a, b, model_flush(sum)));
}

// VDPBF16PS: in each 32-bit lane the odd product is added first, then the even one.
inline void dot_bf16_pairs(const U32& x, const U32& w, F32& sum) {
  for (int lane = 0; lane < kLanes; ++lane) {
    float s = model_fma(model_bf16(x[lane] >> 16), model_bf16(w[lane] >> 16), sum[lane]);
    s = model_fma(model_bf16(x[lane] & 0xFFFF), model_bf16(w[lane] & 0xFFFF), s);
    sum[lane] = s;
  }
}

struct ModelTiles {
  bool configured = false;
  int row_bytes[8] = {};
  int rows[8] = {};
  alignas(64) unsigned char data[8][16][64] = {};
};
inline ModelTiles& model_tiles() {
  thread_local ModelTiles tiles;
  return tiles;
}

// LDTILECFG: byte 0 palette, 1 start row, 16 + 2 t bytes in a row of tile t, 48 + t its rows.
template <typename Config>
void tile_configure(const Config& config) {
  static_assert(sizeof config == 64);
  unsigned char raw[64];
  std::memcpy(raw, &config, sizeof raw);
  HS_CHECK_EQ(int{raw[0]}, 1);
  for (int i = 1; i < 16; ++i) HS_CHECK_EQ(int{raw[i]}, 0);
  ModelTiles& tiles = model_tiles();
  tiles = {};
  for (int t = 0; t < 16; ++t) {
    const int row_bytes = raw[16 + 2 * t] | raw[17 + 2 * t] << 8;
    const int rows = raw[48 + t];
    if (t >= 8) {
      HS_CHECK_EQ(row_bytes + rows, 0);
      continue;
    }
    HS_CHECK_LE(row_bytes, 64);
    HS_CHECK_LE(rows, 16);
    tiles.row_bytes[t] = row_bytes;
    tiles.rows[t] = rows;
  }
  tiles.configured = true;
}
inline void tile_release() {
  model_tiles() = {};
}

inline ModelTiles& model_tile_in_use(int tile) {
  ModelTiles& tiles = model_tiles();
  HS_CHECK(tiles.configured);
  HS_CHECK_GT(tiles.rows[tile], 0);
  HS_CHECK_GT(tiles.row_bytes[tile], 0);
  return tiles;
}
template <int T>
void tile_zero() {
  std::memset(model_tile_in_use(T).data[T], 0, sizeof(ModelTiles::data[T]));
}
template <int T>
void tile_load(const void* from, int64_t row_stride) {
  ModelTiles& tiles = model_tile_in_use(T);
  std::memset(tiles.data[T], 0, sizeof tiles.data[T]);
  for (int row = 0; row < tiles.rows[T]; ++row) {
    std::memcpy(tiles.data[T][row], static_cast<const char*>(from) + row * row_stride,
                static_cast<size_t>(tiles.row_bytes[T]));
  }
}
template <int T>
void tile_store(void* to, int64_t row_stride) {
  const ModelTiles& tiles = model_tile_in_use(T);
  for (int row = 0; row < tiles.rows[T]; ++row) {
    std::memcpy(static_cast<char*>(to) + row * row_stride, tiles.data[T][row],
                static_cast<size_t>(tiles.row_bytes[T]));
  }
}

// TDPBF16PS: even and odd products are summed apart over the whole tile, then added to the
// destination.
template <int Sums, int X, int W>
void tile_multiply() {
  ModelTiles& tiles = model_tile_in_use(Sums);
  model_tile_in_use(X);
  model_tile_in_use(W);
  HS_CHECK_EQ(tiles.rows[X], tiles.rows[Sums]);
  HS_CHECK_EQ(tiles.row_bytes[W], tiles.row_bytes[Sums]);
  HS_CHECK_EQ(tiles.row_bytes[X] / 4, tiles.rows[W]);
  const int n_pairs = tiles.row_bytes[X] / 4;
  const int n_columns = tiles.row_bytes[Sums] / 4;
  const auto pair_at = [&](int tile, int row, int column) {
    uint32_t pair;
    std::memcpy(&pair, &tiles.data[tile][row][column * 4], 4);
    return pair;
  };
  for (int m = 0; m < tiles.rows[Sums]; ++m) {
    for (int n = 0; n < n_columns; ++n) {
      float even = 0;
      float odd = 0;
      for (int k = 0; k < n_pairs; ++k) {
        const uint32_t x = pair_at(X, m, k);
        const uint32_t w = pair_at(W, k, n);
        even = model_fma(model_bf16(x & 0xFFFF), model_bf16(w & 0xFFFF), even);
        odd = model_fma(model_bf16(x >> 16), model_bf16(w >> 16), odd);
      }
      float sum;
      std::memcpy(&sum, &tiles.data[Sums][m][n * 4], 4);
      sum = model_flush(model_flush(sum) + model_flush(even + odd));
      std::memcpy(&tiles.data[Sums][m][n * 4], &sum, 4);
    }
  }
}

}  // namespace hs::HS_ISA_NS
