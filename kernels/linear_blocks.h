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

namespace hs::HS_ISA_NS {

#if defined(__AVX512F__)
constexpr int kTileRows = 6;
constexpr int kTilePanels = 4;  // 24 sums, 4 weights of 32 registers
constexpr int64_t kChunkSteps = 128;
#elif defined(__AVX2__)
constexpr int kTileRows = 6;
constexpr int kTilePanels = 1;  // 12 sums, 2 weights, 1 x of 16 registers
constexpr int64_t kChunkSteps = 256;
#else
constexpr int kTileRows = 3;
constexpr int kTilePanels = 1;
constexpr int64_t kChunkSteps = 256;
#endif

// Panels at once for so few rows that one panel would leave the adders waiting for their own
// results.
constexpr int stream_panels(int rows) {
  if (kLanes == 16) return rows == 1 ? 8 : 4;
  if (kLanes == 8) return rows == 1 ? 4 : rows <= 3 ? 2 : 1;
  return rows == 1 ? 2 : 1;
}

constexpr int64_t kPrefetchBytes = 1536;  // ahead of a streamed panel
constexpr int64_t kItemBytes = 96 << 10;  // weights of a streamed item
constexpr int64_t kBlockRows = 96;        // rows of an item with many rows
constexpr int64_t kBlockPanels = 16;      // panels of such an item, at most
constexpr int64_t kStreamBytes =
    256 << 10;  // x of a block up to this size is passed over once for each panel

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
HS_INLINE int64_t min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}
HS_INLINE int64_t max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// Rows [0, R) times panels [first, end), all of k at once.
template <typename W, int R>
static void stream_panels_of(const LinearParams& params, const typename W::X* x, int64_t x_stride,
                             int64_t n_x, int64_t first, int64_t end) {
  constexpr int kPanels = stream_panels(R);
  constexpr int64_t kPanelSums = R * WeightLayout::kPanelRows;
  alignas(64) float sums[kPanels * kPanelSums];
  const WeightLayout layout{W::kDType, params.weight.out_dim, params.weight.in_dim};
  TileArgs<W> args{.x = x,
                   .x_stride = x_stride,
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
static void linear_stream(const LinearParams& params, const typename W::X* x, int64_t x_stride,
                          int64_t n_x, Team& team) {
  const WeightLayout layout{W::kDType, params.weight.out_dim, params.weight.in_dim};
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
        return stream_panels_of<W, 1>(params, x, x_stride, n_x, first, end);
      case 2:
        return stream_panels_of<W, 2>(params, x, x_stride, n_x, first, end);
      case 3:
        return stream_panels_of<W, 3>(params, x, x_stride, n_x, first, end);
#if defined(__AVX2__)
      case 4:
        return stream_panels_of<W, 4>(params, x, x_stride, n_x, first, end);
      case 5:
        return stream_panels_of<W, 5>(params, x, x_stride, n_x, first, end);
      case 6:
        return stream_panels_of<W, 6>(params, x, x_stride, n_x, first, end);
#endif
      default:
        return;
    }
  };
  team.run(ceil_div(n_panels, per_item), work);
}

// How many rows are cut into how many items; a pure function of sizes.
struct BlockPlan {
  int64_t n_rows = 0;
  int64_t n_panels = 0;
  int64_t n_x = 0;
  int64_t chunk_x = 0;  // elements of x in a chunk of k
  int64_t n_chunks = 0;
  int64_t block_rows = 0;
  int64_t block_panels = 0;
  int64_t n_row_blocks = 0;
  int64_t n_panel_blocks = 0;
  bool panel_by_panel =
      false;  // all of k for one panel, then the next; else all panels for one chunk of k

  int64_t packed_elements() const { return n_chunks * n_rows * chunk_x; }
  int64_t sums_elements() const { return block_rows * block_panels * WeightLayout::kPanelRows; }
  int64_t n_items() const { return n_row_blocks * n_panel_blocks; }
};

static BlockPlan plan_blocks(int64_t n_rows, int64_t n_panels, int64_t n_x, int64_t chunk_x,
                             int workers) {
  BlockPlan plan{.n_rows = n_rows, .n_panels = n_panels, .n_x = n_x, .chunk_x = chunk_x};
  plan.n_chunks = ceil_div(n_x, chunk_x);
  plan.n_row_blocks = ceil_div(n_rows, kBlockRows);
  plan.block_rows = ceil_div(ceil_div(n_rows, plan.n_row_blocks), kTileRows) * kTileRows;
  plan.n_row_blocks = ceil_div(n_rows, plan.block_rows);
  plan.panel_by_panel = plan.block_rows * n_x * int64_t{sizeof(float)} <= kStreamBytes;
  const int64_t items = 6 * int64_t{workers};
  int64_t per_item = n_panels * plan.n_row_blocks / items;
  per_item = min64(max64(per_item, kTilePanels), kBlockPanels);
  plan.block_panels = ceil_div(per_item, kTilePanels) * kTilePanels;
  plan.n_panel_blocks = ceil_div(n_panels, plan.block_panels);
  return plan;
}

// One block of rows times one block of panels.
template <typename W>
struct Block {
  const BlockPlan* plan = nullptr;
  const typename W::X* packed = nullptr;  // (n_chunks, n_rows, chunk_x)
  const std::byte* w = nullptr;           // the block's first panel
  int64_t panel_bytes = 0;
  int64_t first_row = 0;
  int64_t n_rows = 0;
  float* sums = nullptr;  // (panels, n_rows, kPanelRows)

  int64_t panel_sums() const { return n_rows * WeightLayout::kPanelRows; }
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
#if defined(__AVX2__)
    case 4:
      return tile<W, 4, P>(args);
    case 5:
      return tile<W, 5, P>(args);
    case 6:
      return tile<W, 6, P>(args);
#endif
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
  const int64_t n_tiles = ceil_div(block.n_rows, kTileRows);
  const int64_t short_rows = block.n_rows / n_tiles;
  const int64_t n_long = block.n_rows % n_tiles;  // tiles with one row more
  TileArgs<W> args{
      .x = block.packed + (chunk * plan.n_rows + block.first_row) * plan.chunk_x,
      .x_stride = plan.chunk_x,
      .n_x = min64(plan.chunk_x, plan.n_x - chunk * plan.chunk_x),
      .w = block.w + panel * block.panel_bytes + chunk * chunk_bytes,
      .panel_bytes = block.panel_bytes,
      .sums = block.sums + panel * block.panel_sums(),
      .sums_stride = block.panel_sums(),
      .resume = chunk > 0,
      .next = next,
      .next_bytes = ceil_div(kStepBytes, n_tiles),
  };
  for (int64_t i = 0; i < n_tiles; ++i) {
    const int64_t rows = short_rows + (i < n_long ? 1 : 0);
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
      finish_panel(block.sums + i * block.panel_sums(), block.n_rows,
                   panel_output(params, first_panel + i, block.first_row));
    }
  };
  if (plan.panel_by_panel) {
    for (int64_t panel = 0; panel < n_panels; panel += kTilePanels) {
      const int64_t n = min64(kTilePanels, n_panels - panel);
      const std::byte* w = block.w + panel * block.panel_bytes;
      for (int64_t chunk = 0; chunk < plan.n_chunks; ++chunk) {
        const bool last = chunk + 1 == plan.n_chunks;
        block_panels(block, panel, n, chunk,
                     last ? w + n * block.panel_bytes : w + (chunk + 1) * chunk_bytes);
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

// Copies rows of x into the plan's chunks.
template <typename W>
static void pack_x(const LinearParams& params, const BlockPlan& plan, int64_t first, int64_t end,
                   typename W::X* packed) {
  for (int64_t chunk = 0; chunk < plan.n_chunks; ++chunk) {
    const int64_t k = chunk * plan.chunk_x * W::kKPerX;
    const int64_t n = min64(plan.chunk_x * W::kKPerX, params.weight.in_dim - k);
    for (int64_t row = first; row < end; ++row) {
      W::pack_row(params.x + row * params.x_stride + k, n,
                  packed + (chunk * plan.n_rows + row) * plan.chunk_x);
    }
  }
}

constexpr int64_t kAlone =
    32 << 10;                     // bytes of x that one worker packs faster than a team could start
constexpr int64_t kPackRows = 8;  // rows of x in an item of packing

template <typename W>
static void pack_all_x(const LinearParams& params, const BlockPlan& plan, typename W::X* packed,
                       Team& team) {
  if (plan.packed_elements() * int64_t{sizeof(float)} <= kAlone) {
    return pack_x<W>(params, plan, 0, plan.n_rows, packed);
  }
  const auto work = [&](int64_t item, int) {
    const int64_t first = item * kPackRows;
    pack_x<W>(params, plan, first, min64(first + kPackRows, plan.n_rows), packed);
  };
  team.run(ceil_div(plan.n_rows, kPackRows), work);
}

template <typename W>
static void linear_blocked(const LinearParams& params, Team& team) {
  const WeightLayout layout{W::kDType, params.weight.out_dim, params.weight.in_dim};
  const BlockPlan plan =
      plan_blocks(params.n_rows, layout.n_panels(), ceil_div(params.weight.in_dim, W::kKPerX),
                  kChunkSteps * W::kParts, team.size());
  // Worker 0's area begins with the packed x that all workers read.
  const auto sums_bytes = static_cast<size_t>(plan.sums_elements()) * sizeof(float);
  const size_t packed_bytes =
      static_cast<size_t>(ceil_div(plan.packed_elements(), 16)) * 16 * sizeof(typename W::X);
  std::byte* const shared = team.scratch(0, packed_bytes + sums_bytes);
  auto* const packed = reinterpret_cast<typename W::X*>(shared);
  pack_all_x<W>(params, plan, packed, team);
  const auto work = [&](int64_t item, int worker) {
    const int64_t first_row = item % plan.n_row_blocks * plan.block_rows;
    const int64_t first_panel = item / plan.n_row_blocks * plan.block_panels;
    std::byte* const area = worker == 0 ? shared + packed_bytes : team.scratch(worker, sums_bytes);
    const Block<W> block{
        .plan = &plan,
        .packed = packed,
        .w = static_cast<const std::byte*>(params.weight.data) +
             first_panel * static_cast<int64_t>(layout.panel_bytes()),
        .panel_bytes = static_cast<int64_t>(layout.panel_bytes()),
        .first_row = first_row,
        .n_rows = min64(plan.block_rows, plan.n_rows - first_row),
        .sums = reinterpret_cast<float*>(area),
    };
    run_block<W>(params, block, first_panel, min64(plan.block_panels, plan.n_panels - first_panel));
  };
  team.run(plan.n_items(), work);
}

}  // namespace hs::HS_ISA_NS
