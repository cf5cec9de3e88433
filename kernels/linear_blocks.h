// How a linear layer is cut into work items, for all kernels that keep their sums in vector
// registers.
//
// Few rows (decode): an item is a run of panels, streamed from memory once with x as it is. More
// rows: x is first copied into chunks of k that lie close together, then an item is a block of rows
// times a block of panels; a chunk of a panel stays in the first-level cache while all rows of the
// block pass over it. Include only from *_cpu.cpp files (see simd.h).
#pragma once

#include "kernels/linear_epilogue.h"
#include "kernels/linear_tile.h"
#include "kernels/team.h"
#include "kernels/transpose.h"

namespace hs::HS_ISA_NS {

// Sums, weights and one x fit the registers: 24 + 4 + 1 of 32 with AVX-512, 12 + 2 + 1 of 16 with
// AVX2.
constexpr int kTileRows = kLanes == 4 ? 3 : 6;
constexpr int kTilePanels = kLanes == 16 ? 4 : 1;
constexpr int64_t kChunkSteps = kLanes == 16 ? 128 : 256;

// Panels at once for so few rows that one panel would leave the adders waiting for their own
// results.
constexpr int stream_panels(int rows) {
  if (kLanes == 16) return rows == 1 ? 8 : 4;
  if (kLanes == 8) return rows == 1 ? 4 : rows <= 3 ? 2 : 1;
  return rows == 1 ? 2 : 1;
}

constexpr int64_t kPrefetchBytes = 1536;  // ahead of a streamed panel
constexpr int64_t kItemBytes = 96 << 10;  // weights of a streamed item
constexpr int64_t kBlockTiles = 16;       // tiles of rows in an item, at most
constexpr int64_t kBlockPanels = 16;      // panels of such an item, at most
// x of a block up to this size is passed over once for each panel.
constexpr int64_t kStreamBytes = 256 << 10;

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
HS_INLINE int64_t min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}
HS_INLINE int64_t max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// Copies elements [first_x, first_x + n_x) of R rows side by side.
template <typename W, int R>
static void interleave(const float* x, int64_t x_stride, int64_t in_dim, int64_t first_x,
                       int64_t n_x, typename W::X* out) {
  int64_t i = 0;
  if constexpr (W::kXIsFloat && R > 2) {
    const float* rows[kLanes];
    for (int r = 0; r < kLanes; ++r) rows[r] = x + (r < R ? r : 0) * x_stride + first_x;
    // Lanes beyond R are stored too, and written over by the next elements.
    for (; i + 3 + ceil_div(kLanes, R) <= n_x; i += 4) {
      F32 column[4];
      transpose_four(rows, i, column);
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) store(out + (i + c) * R, column[c]);
    }
  }
  for (; i < n_x; ++i) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      out[i * R + r] = W::element(x + r * x_stride, in_dim, first_x + i);
    }
  }
}

// n_rows <= kTileRows, from first_row.
template <typename W>
static void interleave_rows(const LinearParams& params, int64_t first_row, int64_t n_rows,
                            int64_t first_x, int64_t n_x, typename W::X* out) {
  const float* x = params.x + first_row * params.x_stride;
  const int64_t stride = params.x_stride;
  const int64_t in_dim = params.weight.in_dim;
  switch (n_rows) {
    case 1:
      return interleave<W, 1>(x, stride, in_dim, first_x, n_x, out);
    case 2:
      return interleave<W, 2>(x, stride, in_dim, first_x, n_x, out);
    case 3:
      return interleave<W, 3>(x, stride, in_dim, first_x, n_x, out);
    case 4:
      return interleave<W, 4>(x, stride, in_dim, first_x, n_x, out);
    case 5:
      return interleave<W, 5>(x, stride, in_dim, first_x, n_x, out);
    case 6:
      return interleave<W, 6>(x, stride, in_dim, first_x, n_x, out);
    default:
      return;
  }
}

// Rows [0, R) times panels [first, end), all of k at once. x: (n_x, R).
template <typename W, int R>
static void stream_panels_of(const LinearParams& params, const typename W::X* x, int64_t n_x,
                             int64_t first, int64_t end) {
  constexpr int kPanels = stream_panels(R);
  constexpr int64_t kPanelSums = R * WeightLayout::kPanelRows;
  alignas(64) float sums[kPanels * kPanelSums];
  const WeightLayout layout{W::kDType, params.weight.out_dim, params.weight.in_dim};
  TileArgs<W> args{.x = x,
                   .n_x = n_x,
                   .panel_bytes = static_cast<int64_t>(layout.panel_bytes()),
                   .sums = sums,
                   .sums_stride = kPanelSums,
                   .next_bytes = kStepBytes};
  for (int64_t panel = first; panel < end;) {
    args.w = static_cast<const std::byte*>(params.weight.data) + panel * args.panel_bytes;
    args.next = args.w + kPrefetchBytes;
    int64_t n = 1;
    if (panel + kPanels <= end) {
      n = kPanels;
      tile<W, R, kPanels>(args);
    } else {
      tile<W, R, 1>(args);
    }
    for (int64_t i = 0; i < n; ++i) {
      finish_panel(sums + i * kPanelSums, R, panel_output(params, panel + i, 0));
    }
    panel += n;
  }
}

// n_rows <= kTileRows.
template <typename W>
static void linear_stream(const LinearParams& params, Team& team) {
  using X = W::X;
  const WeightLayout layout{W::kDType, params.weight.out_dim, params.weight.in_dim};
  const int64_t n_x = ceil_div(params.weight.in_dim, W::kKPerX);
  const X* x = nullptr;
  if constexpr (W::kXIsFloat) x = params.x;
  if (params.n_rows > 1 || !W::kXIsFloat) {
    X* packed =
        reinterpret_cast<X*>(team.scratch(0, static_cast<size_t>(n_x * params.n_rows) * sizeof(X)));
    interleave_rows<W>(params, 0, params.n_rows, 0, n_x, packed);
    x = packed;
  }
  const int64_t n_panels = layout.n_panels();
  constexpr int64_t kGroup = stream_panels(1);  // a multiple of what other row counts take
  int64_t per_item = max64(kItemBytes / static_cast<int64_t>(layout.panel_bytes()), 1);
  per_item = min64(per_item, ceil_div(n_panels, 4 * int64_t{team.size()}));
  per_item = ceil_div(per_item, kGroup) * kGroup;
  const auto work = [&](int64_t item, int) {
    const int64_t first = item * per_item;
    const int64_t end = min64(first + per_item, n_panels);
    switch (params.n_rows) {
      case 1:
        return stream_panels_of<W, 1>(params, x, n_x, first, end);
      case 2:
        return stream_panels_of<W, 2>(params, x, n_x, first, end);
      case 3:
        return stream_panels_of<W, 3>(params, x, n_x, first, end);
      case 4:
        return stream_panels_of<W, 4>(params, x, n_x, first, end);
      case 5:
        return stream_panels_of<W, 5>(params, x, n_x, first, end);
      case 6:
        return stream_panels_of<W, 6>(params, x, n_x, first, end);
      default:
        return;
    }
  };
  team.run(ceil_div(n_panels, per_item), work);
}

// How many rows are cut into how many items; a pure function of sizes. Rows are grouped in tiles,
// all of a size but for one row; an item takes some tiles and some panels.
struct BlockPlan {
  int64_t n_rows = 0;
  int64_t n_panels = 0;
  int64_t n_x = 0;
  int64_t chunk_x = 0;  // elements of x in a chunk of k
  int64_t n_chunks = 0;
  int64_t n_tiles = 0;
  int64_t block_tiles = 0;
  int64_t block_panels = 0;
  int64_t n_tile_blocks = 0;
  int64_t n_panel_blocks = 0;
  bool panel_by_panel =
      false;  // all of k for one panel, then the next; else all panels for one chunk of k

  int64_t first_row(int64_t tile_id) const {
    const int64_t n_long = n_rows % n_tiles;  // tiles that have one row more
    return tile_id * (n_rows / n_tiles) + min64(tile_id, n_long);
  }
  int64_t tile_rows(int64_t tile_id) const { return first_row(tile_id + 1) - first_row(tile_id); }
  // In packed x: (n_chunks, n_tiles, chunk_x, rows of the tile).
  int64_t packed_index(int64_t chunk, int64_t tile_id) const {
    return (chunk * n_rows + first_row(tile_id)) * chunk_x;
  }
  int64_t packed_elements() const { return n_chunks * n_rows * chunk_x; }
  int64_t sums_elements() const {
    return block_tiles * kTileRows * block_panels * WeightLayout::kPanelRows;
  }
  int64_t n_items() const { return n_tile_blocks * n_panel_blocks; }
};

// parts: elements of x in a step.
static BlockPlan plan_blocks(int64_t n_rows, int64_t n_panels, int64_t n_x, int64_t parts,
                             int workers) {
  BlockPlan plan{.n_rows = n_rows, .n_panels = n_panels, .n_x = n_x};
  plan.n_chunks = ceil_div(n_x, kChunkSteps * parts);
  // Chunks of one size, so that what one fetches ahead is what the next needs.
  plan.chunk_x = ceil_div(ceil_div(n_x, plan.n_chunks), parts) * parts;
  plan.n_tiles = ceil_div(n_rows, kTileRows);
  plan.block_tiles = ceil_div(plan.n_tiles, ceil_div(plan.n_tiles, kBlockTiles));
  plan.n_tile_blocks = ceil_div(plan.n_tiles, plan.block_tiles);
  plan.panel_by_panel = plan.block_tiles * kTileRows * n_x * int64_t{sizeof(float)} <= kStreamBytes;
  const int64_t items = 6 * int64_t{workers};
  int64_t per_item = n_panels * plan.n_tile_blocks / items;
  per_item = min64(max64(per_item, kTilePanels), kBlockPanels);
  plan.block_panels = ceil_div(per_item, kTilePanels) * kTilePanels;
  plan.n_panel_blocks = ceil_div(n_panels, plan.block_panels);
  return plan;
}

// Some tiles of rows times some panels: a work item.
template <typename W>
struct Block {
  const BlockPlan* plan = nullptr;
  const W::X* packed = nullptr;  // all of x
  const std::byte* w = nullptr;  // the block's first panel
  int64_t panel_bytes = 0;
  int64_t first_tile = 0;
  int64_t end_tile = 0;
  float* sums = nullptr;             // (panels, rows of the block, kPanelRows)
  const std::byte* after = nullptr;  // the panel that the worker probably goes on with

  int64_t first_row() const { return plan->first_row(first_tile); }
  int64_t n_rows() const { return plan->first_row(end_tile) - first_row(); }
  int64_t panel_sums() const { return n_rows() * WeightLayout::kPanelRows; }
};

template <typename W, int P>
HS_INLINE void run_tile(int64_t rows, const TileArgs<W>& args) {
  switch (rows) {
    case 1:
      return tile<W, 1, P>(args);
    case 2:
      return tile<W, 2, P>(args);
    case 3:
      return tile<W, 3, P>(args);
    case 4:
      return tile<W, 4, P>(args);
    case 5:
      return tile<W, 5, P>(args);
    case 6:
      return tile<W, 6, P>(args);
    default:
      return;
  }
}

// P panels from `panel` of the block, one chunk of k, all rows. `next`: the weights the block turns
// to afterwards.
template <typename W, int P>
static void block_chunk(const Block<W>& block, int64_t panel, int64_t chunk,
                        const std::byte* next) {
  const BlockPlan& plan = *block.plan;
  const int64_t chunk_bytes = plan.chunk_x / W::kParts * kStepBytes;
  TileArgs<W> args{
      .x = block.packed + plan.packed_index(chunk, block.first_tile),
      .n_x = min64(plan.chunk_x, plan.n_x - chunk * plan.chunk_x),
      .w = block.w + panel * block.panel_bytes + chunk * chunk_bytes,
      .panel_bytes = block.panel_bytes,
      .sums = block.sums + panel * block.panel_sums(),
      .sums_stride = block.panel_sums(),
      .resume = chunk > 0,
      .next = next,
      .next_bytes = ceil_div(kStepBytes, block.end_tile - block.first_tile),
  };
  for (int64_t tile_id = block.first_tile; tile_id < block.end_tile; ++tile_id) {
    const int64_t rows = plan.tile_rows(tile_id);
    run_tile<W, P>(rows, args);
    args.x += rows * plan.chunk_x;
    args.sums += rows * WeightLayout::kPanelRows;
    args.next += args.n_x / W::kParts * args.next_bytes;
  }
}

template <typename W>
static void block_panels(const Block<W>& block, int64_t panel, int64_t n, int64_t chunk,
                         const std::byte* next) {
  if (n == kTilePanels) return block_chunk<W, kTilePanels>(block, panel, chunk, next);
  for (int64_t i = 0; i < n; ++i) block_chunk<W, 1>(block, panel + i, chunk, next);
}

template <typename W>
static void run_block(const LinearParams& params, const Block<W>& block, int64_t first_panel,
                      int64_t n_panels) {
  const BlockPlan& plan = *block.plan;
  const int64_t chunk_bytes = plan.chunk_x / W::kParts * kStepBytes;
  const auto finish = [&](int64_t panel, int64_t n) {
    for (int64_t i = panel; i < panel + n; ++i) {
      finish_panel(block.sums + i * block.panel_sums(), block.n_rows(),
                   panel_output(params, first_panel + i, block.first_row()));
    }
  };
  if (plan.panel_by_panel) {
    for (int64_t panel = 0; panel < n_panels; panel += kTilePanels) {
      const int64_t n = min64(kTilePanels, n_panels - panel);
      const std::byte* w = block.w + panel * block.panel_bytes;
      for (int64_t chunk = 0; chunk < plan.n_chunks; ++chunk) {
        const std::byte* next = w + (chunk + 1) * chunk_bytes;
        if (chunk + 1 == plan.n_chunks) {
          next = panel + n < n_panels ? w + n * block.panel_bytes : block.after;
        }
        block_panels(block, panel, n, chunk, next);
      }
      finish(panel, n);
    }
    return;
  }
  for (int64_t chunk = 0; chunk < plan.n_chunks; ++chunk) {
    const std::byte* w = block.w + chunk * chunk_bytes;
    for (int64_t panel = 0; panel < n_panels; panel += kTilePanels) {
      const int64_t n = min64(kTilePanels, n_panels - panel);
      const bool last = panel + n >= n_panels;
      block_panels(block, panel, n, chunk,
                   last ? w + chunk_bytes : w + (panel + n) * block.panel_bytes);
      if (chunk + 1 == plan.n_chunks) finish(panel, n);
    }
  }
}

constexpr int64_t kAlone =
    32 << 10;  // bytes of x that one worker packs faster than a team could start

// Copies x into the plan's chunks and tiles.
template <typename W>
static void pack_x(const LinearParams& params, const BlockPlan& plan, typename W::X* packed,
                   Team& team) {
  const auto work = [&](int64_t item, int) {
    const int64_t chunk = item / plan.n_tiles;
    const int64_t tile_id = item % plan.n_tiles;
    const int64_t first_x = chunk * plan.chunk_x;
    interleave_rows<W>(params, plan.first_row(tile_id), plan.tile_rows(tile_id), first_x,
                       min64(plan.chunk_x, plan.n_x - first_x),
                       packed + plan.packed_index(chunk, tile_id));
  };
  const int64_t n_items = plan.n_chunks * plan.n_tiles;
  if (plan.packed_elements() * int64_t{sizeof(float)} > kAlone) return team.run(n_items, work);
  for (int64_t item = 0; item < n_items; ++item) work(item, 0);
}

template <typename W>
static void linear_blocked(const LinearParams& params, Team& team) {
  const WeightLayout layout{W::kDType, params.weight.out_dim, params.weight.in_dim};
  const BlockPlan plan =
      plan_blocks(params.n_rows, layout.n_panels(), ceil_div(params.weight.in_dim, W::kKPerX),
                  W::kParts, team.size());
  const auto panel_bytes = static_cast<int64_t>(layout.panel_bytes());
  // Worker 0's area begins with the packed x that all workers read.
  const auto sums_bytes = static_cast<size_t>(plan.sums_elements()) * sizeof(float);
  const size_t packed_bytes =
      static_cast<size_t>(ceil_div(plan.packed_elements(), 16)) * 16 * sizeof(typename W::X);
  std::byte* const shared = team.scratch(0, packed_bytes + sums_bytes);
  auto* const packed = reinterpret_cast<W::X*>(shared);
  pack_x<W>(params, plan, packed, team);
  const auto work = [&](int64_t item, int worker) {
    const int64_t first_tile = item % plan.n_tile_blocks * plan.block_tiles;
    const int64_t first_panel = item / plan.n_tile_blocks * plan.block_panels;
    std::byte* const area = worker == 0 ? shared + packed_bytes : team.scratch(worker, sums_bytes);
    const std::byte* const block_start =
        static_cast<const std::byte*>(params.weight.data) + first_panel * panel_bytes;
    const Block<W> block{
        .plan = &plan,
        .packed = packed,
        .w = block_start,
        .panel_bytes = panel_bytes,
        .first_tile = first_tile,
        .end_tile = min64(first_tile + plan.block_tiles, plan.n_tiles),
        .sums = reinterpret_cast<float*>(area),
        .after = block_start + team.size() * plan.block_panels * panel_bytes,
    };
    run_block<W>(params, block, first_panel, min64(plan.block_panels, plan.n_panels - first_panel));
  };
  team.run(plan.n_items(), work);
}

template <typename W>
static void linear(const LinearParams& params, Team& team) {
  if (params.n_rows <= kTileRows) return linear_stream<W>(params, team);
  linear_blocked<W>(params, team);
}

}  // namespace hs::HS_ISA_NS
