// Linear layers with bf16 weights by AMX tiles: x is rounded to bf16 too, products of 32 k at a
// time, float32 sums.
//
// What holds: each sum passes through the same tile products in the same order of k whatever n_rows
// is, and a tile product treats its rows alike, so here too a row's result does not depend on its
// batch. It differs from the other levels by the rounding of x and by the order inside a tile
// product, which sums even and odd k apart. Subnormal numbers count as zero. All row counts run on
// tiles, decode included: a second kind of product for few rows would break the first promise.
//
// An item is some tiles of rows times some panels; two tiles of rows and two panels are four tiles
// of sums, and each tile loaded is used twice. Developed on a machine without AMX: its logic is
// tested against a model of the instructions (tests/kernels/bf16_model.h); real hardware has not
// run it.
#include <cstddef>

#include "kernels/linear_epilogue.h"
#include "kernels/team.h"

#ifdef HS_INSTRUCTION_MODEL
#include HS_INSTRUCTION_MODEL
#endif

namespace hs::HS_ISA_NS {

constexpr int64_t kTileK = 32;        // k in a tile
constexpr int64_t kTileBytes = 1024;  // of weights: 16 pairs of k, 16 rows, 2
constexpr int64_t kRowBytes = 64;     // of a row of any tile
constexpr int64_t kTileRowsMax = 16;
constexpr int64_t kPanelRows = WeightLayout::kPanelRows;
static_assert(WeightLayout::kBf16Pad == kTileK && kPanelRows == 16);

constexpr int64_t kChunkTiles = 32;    // tiles along k in a chunk: 64 KiB of weights of two panels
constexpr int64_t kBlockTiles = 18;    // tiles of rows in an item, at most; even
constexpr int64_t kBlockPanels = 16;   // panels in an item, at most; even
constexpr int64_t kAheadBytes = 4096;  // prefetched ahead in each panel

// Tiles 0 to 3 are sums, 4 and 5 rows of x, 6 and 7 weights.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  explicit TileConfig(int64_t x_rows) {
    for (int tile = 0; tile < 8; ++tile) {
      row_bytes[tile] = static_cast<uint16_t>(kRowBytes);
      rows[tile] = static_cast<uint8_t>(tile < 6 ? x_rows : kTileRowsMax);
    }
  }
};
static_assert(sizeof(TileConfig) == 64);

#ifndef HS_INSTRUCTION_MODEL
HS_INLINE void tile_configure(const TileConfig& config) {
  __asm__ volatile("ldtilecfg %0" : : "m"(config));
}
HS_INLINE void tile_release() {
  __asm__ volatile("tilerelease" : : : "memory");
}
template <int T>
HS_INLINE void tile_zero() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(T));
}
template <int T>
HS_INLINE void tile_load(const void* from, int64_t row_stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                   :
                   : "r"(from), "r"(row_stride), "i"(T)
                   : "memory");
}
template <int T>
HS_INLINE void tile_store(void* to, int64_t row_stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                   :
                   : "r"(to), "r"(row_stride), "i"(T)
                   : "memory");
}
// Sums += x * weights.
template <int Sums, int X, int W>
HS_INLINE void tile_multiply() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(X), "i"(W));
}
#endif

HS_INLINE int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
HS_INLINE int64_t min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}
HS_INLINE int64_t max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// How a layer is cut; a pure function of sizes. All tiles of rows have the same height, so that
// there is one configuration; the last may be filled up with rows of zeros.
struct TilePlan {
  int64_t n_rows = 0;
  int64_t n_panels = 0;
  int64_t k_tiles = 0;
  int64_t n_tiles = 0;    // of rows
  int64_t tile_rows = 0;  // <= 16
  int64_t block_tiles = 0;
  int64_t block_panels = 0;
  int64_t n_tile_blocks = 0;
  int64_t n_panel_blocks = 0;

  int64_t x_tile_bytes() const { return tile_rows * kRowBytes; }
  // Packed x: (n_tiles, k_tiles, tile_rows, kTileK) bf16.
  int64_t packed_bytes() const { return n_tiles * k_tiles * x_tile_bytes(); }
  // Sums of an item: (panels, tiles of the item, tile_rows, kPanelRows) float32.
  int64_t sums_bytes() const { return block_panels * block_tiles * tile_rows * kRowBytes; }
  int64_t n_items() const { return n_tile_blocks * n_panel_blocks; }
};

static TilePlan plan_tiles(int64_t n_rows, const WeightLayout& layout, int workers) {
  TilePlan plan{
      .n_rows = n_rows, .n_panels = layout.n_panels(), .k_tiles = layout.padded_in_dim() / kTileK};
  plan.n_tiles = ceil_div(n_rows, kTileRowsMax);
  plan.tile_rows = ceil_div(n_rows, plan.n_tiles);
  plan.n_tiles = ceil_div(n_rows, plan.tile_rows);
  plan.block_tiles = ceil_div(plan.n_tiles, ceil_div(plan.n_tiles, kBlockTiles));
  plan.n_tile_blocks = ceil_div(plan.n_tiles, plan.block_tiles);
  const int64_t per_item = plan.n_panels * plan.n_tile_blocks / (6 * int64_t{workers});
  plan.block_panels = min64(ceil_div(max64(per_item, 2), 2) * 2, kBlockPanels);
  plan.n_panel_blocks = ceil_div(plan.n_panels, plan.block_panels);
  return plan;
}

// Rounds one tile of rows to bf16, padding of k and rows that do not exist as zeros.
static void pack_tile(const LinearParams& params, const TilePlan& plan, int64_t tile_id,
                      std::byte* packed) {
  const int64_t in_dim = params.weight.in_dim;
  std::byte* const tile = packed + tile_id * plan.k_tiles * plan.x_tile_bytes();
  for (int64_t r = 0; r < plan.tile_rows; ++r) {
    const int64_t row = tile_id * plan.tile_rows + r;
    for (int64_t k_tile = 0; k_tile < plan.k_tiles; ++k_tile) {
      auto* to = reinterpret_cast<uint16_t*>(tile + k_tile * plan.x_tile_bytes() + r * kRowBytes);
      for (int64_t i = 0; i < kTileK; i += kLanes) {
        const int64_t k = k_tile * kTileK + i;
        const int64_t n = row < plan.n_rows ? max64(min64(in_dim - k, kLanes), 0) : 0;
        store_bf16(to + i, n == 0 ? F32{} : load_n(params.x + row * params.x_stride + k, n));
      }
    }
  }
}

struct TileBlock {
  const TilePlan* plan = nullptr;
  const std::byte* x = nullptr;  // the item's first tile of rows
  const std::byte* w = nullptr;  // the item's first panel
  int64_t panel_bytes = 0;
  int64_t n_tiles = 0;
  std::byte* sums = nullptr;

  std::byte* sums_of(int64_t panel, int64_t tile_id) const {
    return sums + (panel * n_tiles + tile_id) * plan->tile_rows * kRowBytes;
  }
};

// R tiles of rows times P panels over one chunk of k. `fetch`: these weights come from memory, so
// ask for them ahead.
template <int R, int P>
static void multiply_chunk(const TileBlock& block, int64_t tile_id, int64_t panel, int64_t first_k,
                           int64_t n_k, bool fetch) {
  const TilePlan& plan = *block.plan;
  std::byte* const sums[4] = {block.sums_of(panel, tile_id), block.sums_of(panel + P - 1, tile_id),
                              block.sums_of(panel, tile_id + R - 1),
                              block.sums_of(panel + P - 1, tile_id + R - 1)};
  if (first_k == 0) {
    tile_zero<0>();
    if constexpr (P == 2) tile_zero<1>();
    if constexpr (R == 2) tile_zero<2>();
    if constexpr (R == 2 && P == 2) tile_zero<3>();
  } else {
    tile_load<0>(sums[0], kRowBytes);
    if constexpr (P == 2) tile_load<1>(sums[1], kRowBytes);
    if constexpr (R == 2) tile_load<2>(sums[2], kRowBytes);
    if constexpr (R == 2 && P == 2) tile_load<3>(sums[3], kRowBytes);
  }
  const int64_t x_step = plan.x_tile_bytes();
  const std::byte* x = block.x + (tile_id * plan.k_tiles + first_k) * x_step;
  const std::byte* w = block.w + panel * block.panel_bytes + first_k * kTileBytes;
  for (int64_t k = 0; k < n_k; ++k) {
    if (fetch) {
      for (int64_t line = 0; line < kTileBytes; line += 64) {
        __builtin_prefetch(w + kAheadBytes + line);
        if constexpr (P == 2) __builtin_prefetch(w + block.panel_bytes + kAheadBytes + line);
      }
    }
    tile_load<6>(w, kRowBytes);
    tile_load<4>(x, kRowBytes);
    tile_multiply<0, 4, 6>();
    if constexpr (P == 2) {
      tile_load<7>(w + block.panel_bytes, kRowBytes);
      tile_multiply<1, 4, 7>();
    }
    if constexpr (R == 2) {
      tile_load<5>(x + plan.k_tiles * x_step, kRowBytes);
      tile_multiply<2, 5, 6>();
    }
    if constexpr (R == 2 && P == 2) tile_multiply<3, 5, 7>();
    x += x_step;
    w += kTileBytes;
  }
  tile_store<0>(sums[0], kRowBytes);
  if constexpr (P == 2) tile_store<1>(sums[1], kRowBytes);
  if constexpr (R == 2) tile_store<2>(sums[2], kRowBytes);
  if constexpr (R == 2 && P == 2) tile_store<3>(sums[3], kRowBytes);
}

static void multiply_panels(const TileBlock& block, int64_t panel, bool pair, int64_t first_k,
                            int64_t n_k) {
  for (int64_t tile_id = 0; tile_id < block.n_tiles; tile_id += 2) {
    const bool two = tile_id + 1 < block.n_tiles;
    const bool fetch = tile_id == 0;
    if (two && pair) {
      multiply_chunk<2, 2>(block, tile_id, panel, first_k, n_k, fetch);
    } else if (two) {
      multiply_chunk<2, 1>(block, tile_id, panel, first_k, n_k, fetch);
    } else if (pair) {
      multiply_chunk<1, 2>(block, tile_id, panel, first_k, n_k, fetch);
    } else {
      multiply_chunk<1, 1>(block, tile_id, panel, first_k, n_k, fetch);
    }
  }
}

static void run_item(const LinearParams& params, const TileBlock& block, int64_t first_row,
                     int64_t first_panel, int64_t n_panels) {
  const TilePlan& plan = *block.plan;
  for (int64_t first_k = 0; first_k < plan.k_tiles; first_k += kChunkTiles) {
    const int64_t n_k = min64(kChunkTiles, plan.k_tiles - first_k);
    for (int64_t panel = 0; panel < n_panels; panel += 2) {
      multiply_panels(block, panel, panel + 1 < n_panels, first_k, n_k);
    }
  }
  const int64_t n_rows = min64(block.n_tiles * plan.tile_rows, plan.n_rows - first_row);
  for (int64_t panel = 0; panel < n_panels; ++panel) {
    finish_panel(reinterpret_cast<const float*>(block.sums_of(panel, 0)), n_rows,
                 panel_output(params, first_panel + panel, first_row));
  }
}

void linear_cpu(const LinearParams& params, Team& team);
void linear_cpu(const LinearParams& params, Team& team) {
  if (params.n_rows <= 0 || params.weight.out_dim <= 0) return;
  const WeightLayout layout{DType::kBF16, params.weight.out_dim, params.weight.in_dim};
  const TilePlan plan = plan_tiles(params.n_rows, layout, team.size());
  const auto panel_bytes = static_cast<int64_t>(layout.panel_bytes());
  // Worker 0's area begins with the packed x that all workers read.
  std::byte* const packed =
      team.scratch(0, static_cast<size_t>(plan.packed_bytes() + plan.sums_bytes()));
  const auto pack = [&](int64_t tile_id, int) { pack_tile(params, plan, tile_id, packed); };
  team.run(plan.n_tiles, pack);
  const TileConfig config(plan.tile_rows);
  const auto work = [&](int64_t item, int worker) {
    const int64_t first_tile = item % plan.n_tile_blocks * plan.block_tiles;
    const int64_t first_panel = item / plan.n_tile_blocks * plan.block_panels;
    const TileBlock block{
        .plan = &plan,
        .x = packed + first_tile * plan.k_tiles * plan.x_tile_bytes(),
        .w = static_cast<const std::byte*>(params.weight.data) + first_panel * panel_bytes,
        .panel_bytes = panel_bytes,
        .n_tiles = min64(plan.block_tiles, plan.n_tiles - first_tile),
        .sums = worker == 0 ? packed + plan.packed_bytes()
                            : team.scratch(worker, static_cast<size_t>(plan.sums_bytes()))};
    tile_configure(config);
    run_item(params, block, first_tile * plan.tile_rows, first_panel,
             min64(plan.block_panels, plan.n_panels - first_panel));
    tile_release();
  };
  team.run(plan.n_items(), work);
}

}  // namespace hs::HS_ISA_NS
