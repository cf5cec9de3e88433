// A tile: some query tokens times the query heads that share one key head, attended to block by
// block of keys.
//
// Row t * heads + h of a tile is token t, head h. A row's arithmetic depends on the row and its
// keys alone: scores are chains over d, softmax is taken over blocks of kKeyBlock keys that begin
// at multiples of kKeyBlock, and values are added key after key.
#pragma once

#include "kernels/attention_few_rows.h"
#include "kernels/attention_keys.h"
#include "kernels/small_gemm.h"
#include "kernels/softmax_state.h"

namespace hs::HS_ISA_NS {

constexpr int64_t kTileRowsMax = 192;

// The work area of one worker.
struct TileMemory {
  float* q = nullptr;       // (kTileRowsMax, d), already times scale
  float* keys = nullptr;    // (d, kKeyBlock)
  float* values = nullptr;  // (kKeyBlock, d_padded)
  float* scores = nullptr;  // (kTileRowsMax, kKeyBlock)
  float* top = nullptr;     // (kTileRowsMax), the largest scores of a block
  SoftmaxState part;        // of one stretch of keys
  SoftmaxState whole;       // of all of them
};

HS_INLINE int64_t state_floats(int64_t rows, int64_t d) {
  return round_up(rows * (round_up(d, kLanes) + 2), 16);
}

// A state of `rows` rows in memory of state_floats(rows, d) floats.
HS_INLINE SoftmaxState state_in(float* memory, int64_t rows, int64_t d) {
  const int64_t width = round_up(d, kLanes);
  return {memory + rows * width, memory + rows * (width + 1), memory, width};
}

HS_INLINE size_t tile_bytes(int64_t d) {
  const int64_t floats = kTileRowsMax * d + d * kKeyBlock + kKeyBlock * round_up(d, kLanes) +
                         kTileRowsMax * (kKeyBlock + 1) + 2 * state_floats(kTileRowsMax, d);
  return static_cast<size_t>(floats) * sizeof(float);
}

HS_INLINE TileMemory tile_memory(std::byte* area, int64_t d) {
  TileMemory m;
  m.q = reinterpret_cast<float*>(area);
  m.keys = m.q + kTileRowsMax * d;
  m.values = m.keys + d * kKeyBlock;
  m.scores = m.values + kKeyBlock * round_up(d, kLanes);
  m.top = m.scores + kTileRowsMax * kKeyBlock;
  float* states = m.top + kTileRowsMax;
  m.part = state_in(states, kTileRowsMax, d);
  m.whole = state_in(states + state_floats(kTileRowsMax, d), kTileRowsMax, d);
  return m;
}

struct Tile {
  int64_t n_tokens = 0;
  int64_t heads = 0;
  int64_t d = 0;
  int64_t n_keys = 0;      // that its last token sees
  int64_t first_seen = 0;  // token t sees keys 0 .. first_seen + t - 1, and none from n_keys on
  int64_t rows() const { return n_tokens * heads; }
};

// q (token, head, d) with tokens stride apart -> the tile's rows, times scale.
static void load_queries(const Tile& tile, const float* q, int64_t stride, float scale, float* to) {
  for (int64_t t = 0; t < tile.n_tokens; ++t) {
    const float* from = q + t * stride;
    for (int64_t i = 0; i < tile.heads * tile.d; ++i) to[i] = from[i] * scale;
    to += tile.heads * tile.d;
  }
}

// Turns the scores of a block into weights, for the rows of tokens first_token and later. Pass by
// pass over all rows, so that the rows' chains of dependent operations overlap.
static void soften(const Tile& tile, const TileMemory& m, int64_t begin, int64_t n_keys,
                   int64_t first_token, const SoftmaxState& state) {
  const auto seen_by = [&](int64_t token) __attribute__((always_inline)) {
    const int64_t seen = tile.first_seen + token - begin;
    return seen < n_keys ? seen : n_keys;
  };
  const int64_t heads = tile.heads;
  for (int64_t t = first_token; t < tile.n_tokens; ++t) {
    for (int64_t r = t * heads; r < (t + 1) * heads; ++r) {
      m.top[r] = mask_and_find_top(m.scores + r * kKeyBlock, seen_by(t));
    }
  }
  raise_largest(state, first_token * heads, tile.rows(), m.top);
  for (int64_t t = first_token; t < tile.n_tokens; ++t) {
    for (int64_t r = t * heads; r < (t + 1) * heads; ++r) {
      add_weights(state, r, m.scores + r * kKeyBlock, seen_by(t), n_keys);
      scale_acc(state, r, m.top[r]);
    }
  }
}

// scores (rows, kKeyBlock) = q (rows, d) times the block's keys.
template <typename T>
static void score_tile(KeyRows<T>& block, const KeyRows<T>& next, int64_t rows, const float* q,
                       int64_t d, const TileMemory& m, float* scores) {
  load_keys(block, next, d, m.keys);
  const SmallGemm product = {
      .k_len = d, .a = q, .lda = d, .b = m.keys, .ldb = kKeyBlock, .c = scores, .ldc = kKeyBlock};
  small_gemm(product, rows, round_up(block.n_keys, kLanes));
}

// acc (rows, width) += weights (rows, kKeyBlock) times the block's values.
template <typename T>
static void mix_tile(const KeyRows<T>& block, const KeyRows<T>& next, int64_t rows,
                     const float* weights, int64_t d, const TileMemory& m, float* acc) {
  const int64_t width = round_up(d, kLanes);
  load_values(block, next, d, m.values);
  const SmallGemm product = {.k_len = block.n_keys,
                             .a = weights,
                             .lda = kKeyBlock,
                             .b = m.values,
                             .ldb = width,
                             .c = acc,
                             .ldc = width,
                             .accumulate = true};
  small_gemm(product, rows, width);
}

// Adds one block of keys, the first of which is key `begin`, to the rows that see any of it.
template <typename T>
static void attend_block(const Tile& tile, const TileMemory& m, int64_t begin, KeyRows<T>& block,
                         const KeyRows<T>& next, const SoftmaxState& state) {
  const int64_t blind_tokens = begin >= tile.first_seen ? begin - tile.first_seen + 1 : 0;
  const int64_t first = blind_tokens * tile.heads;
  const int64_t rows = tile.rows() - first;
  const float* q = m.q + first * tile.d;
  float* scores = m.scores + first * kKeyBlock;
  float* acc = state.acc + first * state.width;
  if (rows <= kFewRows && state.width == tile.d) {
    score_few(block, next, rows, q, tile.d, scores);
    soften(tile, m, begin, block.n_keys, blind_tokens, state);
    mix_few(block, next, rows, scores, tile.d, acc);
  } else {
    score_tile(block, next, rows, q, tile.d, m, scores);
    soften(tile, m, begin, block.n_keys, blind_tokens, state);
    mix_tile(block, next, rows, scores, tile.d, m, acc);
  }
}

// Adds keys begin .. end-1 to a cleared or earlier state; begin is a multiple of kKeyBlock, and
// end one too or the end of the keys.
// find(first_key, rows) says where the keys and values stand.
template <typename T, typename Find>
HS_INLINE void attend_range(const Tile& tile, const TileMemory& m, int64_t begin, int64_t end,
                            const Find& find, const SoftmaxState& state) {
  KeyRows<T> blocks[2];  // the one in work and the next, which may lie behind `end`
  const auto find_block = [&](int64_t key) __attribute__((always_inline)) {
    KeyRows<T>& block = blocks[key / kKeyBlock % 2];
    const int64_t left = key < tile.n_keys ? tile.n_keys - key : 0;
    block.n_keys = left < kKeyBlock ? left : kKeyBlock;
    if (left > 0) find(key, block);
  };
  find_block(begin);
  for (int64_t key = begin; key < end; key += kKeyBlock) {
    find_block(key + kKeyBlock);
    KeyRows<T>& block = blocks[key / kKeyBlock % 2];
    const KeyRows<T>& next = blocks[(key / kKeyBlock + 1) % 2];
    attend_block(tile, m, key, block, next, state);
  }
}

// Writes the tile's rows; out is at its first token and head, tokens are stride apart.
static void store_tile(const Tile& tile, const SoftmaxState& state, float* out, int64_t stride) {
  for (int64_t t = 0; t < tile.n_tokens; ++t) {
    for (int64_t h = 0; h < tile.heads; ++h) {
      finish_row(state, t * tile.heads + h, out + t * stride + h * tile.d, tile.d);
    }
  }
}

}  // namespace hs::HS_ISA_NS
