#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/attention_tile.h"

namespace hs::HS_ISA_NS {
namespace {

// Keys are summed up in stretches of this many from the start of the sequence, and the stretches
// merged in order; always, so that spreading one sequence over many workers does not change its
// result.
constexpr int64_t kStretch = 256;
constexpr int64_t kSplitRowsMin =
    18;  // a tile of fewer rows is not worth making to keep workers busy
constexpr int64_t kTilesPerWorker = 4;

int64_t min_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}
int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// How the work is cut into items. Not a matter of results, only of balance.
struct Plan {
  int64_t group = 0;        // query heads of a key head
  int64_t heads = 0;        // of a tile, at most group
  int64_t head_tiles = 0;   // tiles that cover a group
  int64_t tile_rows = 0;    // at most
  bool split = false;       // an item is one stretch of a tile, merged in a second pass
  int64_t part_floats = 0;  // of the state an item leaves behind when split
  int64_t n_items = 0;
};

// The tiles of one sequence: item = ((key head * head_tiles + head tile) * token_tiles + token
// tile) * stretches
// + stretch.
struct SequenceItems {
  int64_t token_tiles = 0;
  int64_t tile_tokens = 0;
  int64_t stretches = 1;
  int64_t n_items = 0;
};

SequenceItems items_of(const PagedAttentionParams& p, const Plan& plan, int64_t seq) {
  SequenceItems s;
  const int64_t n_query = p.cu_query[seq + 1] - p.cu_query[seq];
  if (n_query == 0) return s;
  const int64_t tokens_max = plan.tile_rows / plan.heads > 0 ? plan.tile_rows / plan.heads : 1;
  s.token_tiles = ceil_div(n_query, tokens_max);
  s.tile_tokens = ceil_div(n_query, s.token_tiles);
  s.token_tiles = ceil_div(n_query, s.tile_tokens);
  if (plan.split) s.stretches = ceil_div(p.context_lens[seq], kStretch);
  s.n_items = p.layout.n_kv_heads * plan.head_tiles * s.token_tiles * s.stretches;
  return s;
}

Plan make_plan(const PagedAttentionParams& p, int64_t workers) {
  Plan plan;
  plan.group = p.n_heads / p.layout.n_kv_heads;
  const int64_t rows = (p.cu_query[p.n_seqs] - p.cu_query[0]) * p.n_heads;
  const int64_t balanced = round_up(rows / (kTilesPerWorker * workers), kGemmRows);
  plan.tile_rows = balanced < kSplitRowsMin ? kSplitRowsMin : min_of(balanced, kTileRowsMax);
  plan.heads = min_of(plan.group, plan.tile_rows);
  plan.head_tiles = ceil_div(plan.group, plan.heads);
  int64_t longest = 0;
  for (int64_t s = 0; s < p.n_seqs; ++s) {
    plan.n_items += items_of(p, plan, s).n_items;
    if (p.context_lens[s] > longest) longest = p.context_lens[s];
  }
  plan.split = workers > 1 && plan.n_items < kTilesPerWorker * workers && longest > kStretch;
  if (!plan.split) return plan;
  plan.n_items = 0;
  for (int64_t s = 0; s < p.n_seqs; ++s) {
    const SequenceItems items = items_of(p, plan, s);
    plan.n_items += items.n_items;
    const int64_t floats = state_floats(items.tile_tokens * plan.heads, p.layout.d_head);
    if (floats > plan.part_floats) plan.part_floats = floats;
  }
  return plan;
}

// What one item is to do.
struct Item {
  Tile tile;
  int64_t seq = 0;
  int64_t first_row = 0;  // of q
  int32_t kv_head = 0;
  int64_t first_head = 0;
  int64_t stretch = 0;
  int64_t stretches = 1;
};

int64_t find_sequence(const int64_t* first_item, int64_t n_seqs, int64_t item) {
  int64_t low = 0, high = n_seqs;  // first_item[low] <= item < first_item[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (first_item[middle] <= item ? low : high) = middle;
  }
  return low;
}

Item find_item(const PagedAttentionParams& p, const Plan& plan, const int64_t* first_item,
               int64_t index) {
  Item item;
  item.seq = find_sequence(first_item, p.n_seqs, index);
  const SequenceItems s = items_of(p, plan, item.seq);
  int64_t at = index - first_item[item.seq];
  item.stretches = s.stretches;
  item.stretch = at % s.stretches;
  at /= s.stretches;
  // Late tokens see more keys: longest first, so that no worker is left with a long item at the
  // end.
  const int64_t token_tile = s.token_tiles - 1 - at % s.token_tiles;
  at /= s.token_tiles;
  item.kv_head = static_cast<int32_t>(at / plan.head_tiles);
  const int64_t head_in_group = at % plan.head_tiles * plan.heads;
  item.first_head = item.kv_head * plan.group + head_in_group;

  const int64_t n_query = p.cu_query[item.seq + 1] - p.cu_query[item.seq];
  const int64_t first_token = token_tile * s.tile_tokens;
  const int64_t before =
      p.context_lens[item.seq] - n_query;  // tokens in the cache before this step
  item.first_row = p.cu_query[item.seq] + first_token;
  item.tile.n_tokens = min_of(s.tile_tokens, n_query - first_token);
  item.tile.heads = min_of(plan.heads, plan.group - head_in_group);
  item.tile.d = p.layout.d_head;
  item.tile.first_seen = before + first_token + 1;
  item.tile.n_keys = before + first_token + item.tile.n_tokens;
  return item;
}

// Where the keys of one head of one sequence stand.
template <typename T>
struct PagedKeys {
  const T* cache;
  const KvLayout& layout;
  const int32_t* table;  // this sequence's blocks
  int32_t head;

  [[gnu::always_inline]] void append(KeyRows<T>& rows, int64_t at, int64_t block, int32_t slot,
                                     int64_t n) const {
    const T* key = cache + layout.key_index(block, head, slot);
    const T* value = cache + layout.value_index(block, head, slot);
    for (int64_t i = 0; i < n; ++i) {
      rows.keys[at + i] = key + i * layout.d_head;
      rows.values[at + i] = value + i * layout.d_head;
    }
  }
  void operator()(int64_t first_key, KeyRows<T>& rows) const {
    for (int64_t at = 0; at < rows.n_keys;) {
      const int64_t key = first_key + at;
      const auto slot = static_cast<int32_t>(key % layout.block_size);
      const int64_t n = min_of(layout.block_size - slot, rows.n_keys - at);
      append(rows, at, table[key / layout.block_size], slot, n);
      at += n;
    }
  }
};

template <typename T>
PagedKeys<T> keys_of(const PagedAttentionParams& p, const Item& item) {
  return {static_cast<const T*>(p.kv), p.layout, p.block_tables + item.seq * p.block_table_stride,
          item.kv_head};
}

void load_item_queries(const PagedAttentionParams& p, const Item& item, const TileMemory& m) {
  const float* q = p.q + item.first_row * p.q_stride + item.first_head * p.layout.d_head;
  load_queries(item.tile, q, p.q_stride, p.scale, m.q);
}

void store_item(const PagedAttentionParams& p, const Item& item, const SoftmaxState& state) {
  const int64_t stride = int64_t{p.n_heads} * p.layout.d_head;
  float* out = p.out + item.first_row * stride + item.first_head * p.layout.d_head;
  store_tile(item.tile, state, out, stride);
}

void merge_stretch(const Tile& tile, const SoftmaxState& whole, const SoftmaxState& part) {
  for (int64_t r = 0; r < tile.rows(); ++r) {
    if (part.sum[r] != 0) merge_row(whole, r, part, r);  // 0: the row sees no key of this stretch
  }
}

template <typename T>
void attend_stretch(const PagedAttentionParams& p, const Item& item, const TileMemory& m,
                    int64_t stretch, const SoftmaxState& part) {
  clear(part, item.tile.rows());
  const int64_t begin = stretch * kStretch;
  attend_range<T>(item.tile, m, begin, min_of(begin + kStretch, item.tile.n_keys),
                  keys_of<T>(p, item), part);
}

template <typename T>
void attend_whole(const PagedAttentionParams& p, const Item& item, const TileMemory& m) {
  load_item_queries(p, item, m);
  clear(m.whole, item.tile.rows());
  for (int64_t stretch = 0; stretch * kStretch < item.tile.n_keys; ++stretch) {
    attend_stretch<T>(p, item, m, stretch, m.part);
    merge_stretch(item.tile, m.whole, m.part);
  }
  store_item(p, item, m.whole);
}

// Memory all workers see stands at the start of worker 0's area, before its own.
struct SharedMemory {
  std::byte* base = nullptr;
  size_t bytes = 0;
  int64_t* first_item = nullptr;  // (n_seqs + 1)
  float* parts = nullptr;         // (n_items, part_floats)
};

SharedMemory make_shared_memory(const PagedAttentionParams& p, const Plan& plan, Team& team) {
  SharedMemory s;
  const int64_t table = round_up((p.n_seqs + 1) * static_cast<int64_t>(sizeof(int64_t)), 64);
  const int64_t parts = plan.split ? plan.n_items * plan.part_floats : 0;
  s.bytes = static_cast<size_t>(round_up(table + parts * static_cast<int64_t>(sizeof(float)), 64));
  s.base = team.scratch(0, s.bytes + tile_bytes(p.layout.d_head));
  s.first_item = reinterpret_cast<int64_t*>(s.base);
  s.parts = reinterpret_cast<float*>(s.base + table);
  s.first_item[0] = 0;
  for (int64_t i = 0; i < p.n_seqs; ++i) {
    s.first_item[i + 1] = s.first_item[i] + items_of(p, plan, i).n_items;
  }
  return s;
}

template <typename T>
void run_paged(const PagedAttentionParams& p, Team& team) {
  const Plan plan = make_plan(p, team.size());
  if (plan.n_items == 0) return;
  const SharedMemory shared = make_shared_memory(p, plan, team);
  const int64_t d = p.layout.d_head;
  const auto memory_of = [&](int worker) {
    return tile_memory(
        worker == 0 ? shared.base + shared.bytes : team.scratch(worker, tile_bytes(d)), d);
  };
  if (!plan.split) {
    team.run(plan.n_items, [&](int64_t index, int worker) {
      attend_whole<T>(p, find_item(p, plan, shared.first_item, index), memory_of(worker));
    });
    return;
  }
  const auto part_of = [&](int64_t index, const Item& item) {
    return state_in(shared.parts + index * plan.part_floats, item.tile.rows(), d);
  };
  team.run(plan.n_items, [&](int64_t index, int worker) {
    const Item item = find_item(p, plan, shared.first_item, index);
    const TileMemory m = memory_of(worker);
    load_item_queries(p, item, m);
    attend_stretch<T>(p, item, m, item.stretch, part_of(index, item));
  });
  team.run(plan.n_items, [&](int64_t index, int worker) {
    const Item item = find_item(p, plan, shared.first_item, index);
    if (item.stretch != 0) return;
    const SoftmaxState whole = memory_of(worker).whole;
    clear(whole, item.tile.rows());
    for (int64_t i = 0; i < item.stretches; ++i) {
      merge_stretch(item.tile, whole, part_of(index + i, item));
    }
    store_item(p, item, whole);
  });
}

struct PackedKeys {
  const float* k;  // at the segment's first token and this head
  const float* v;
  int64_t stride;

  void operator()(int64_t first_key, KeyRows<float>& rows) const {
    for (int64_t i = 0; i < rows.n_keys; ++i) {
      rows.keys[i] = k + (first_key + i) * stride;
      rows.values[i] = v + (first_key + i) * stride;
    }
  }
};

int64_t segment_tiles(const PackedAttentionParams& p, int64_t segment) {
  return ceil_div(p.cu_seqlens[segment + 1] - p.cu_seqlens[segment], kTileRowsMax);
}

// Tile number `index` of one head of a segment.
void attend_packed(const PackedAttentionParams& p, int64_t segment, int64_t head, int64_t index,
                   const TileMemory& m) {
  const int64_t first = p.cu_seqlens[segment];
  const int64_t n = p.cu_seqlens[segment + 1] - first;
  const int64_t tile_tokens = ceil_div(n, segment_tiles(p, segment));
  const int64_t first_token = index * tile_tokens;
  if (first_token >= n) return;
  const Tile tile = {min_of(tile_tokens, n - first_token), 1, p.d_head, n, n};
  const int64_t column = head * p.d_head;
  const int64_t row = first + first_token;
  load_queries(tile, p.q + row * p.qkv_stride + column, p.qkv_stride, p.scale, m.q);
  clear(m.whole, tile.rows());
  const int64_t keys = first * p.qkv_stride + column;
  attend_range<float>(tile, m, 0, n, PackedKeys{p.k + keys, p.v + keys, p.qkv_stride}, m.whole);
  const int64_t stride = int64_t{p.n_heads} * p.d_head;
  store_tile(tile, m.whole, p.out + row * stride + column, stride);
}

}  // namespace

void paged_attention_cpu(const PagedAttentionParams& params, Team& team) {
  HS_CHECK(params.layout.d_head % 4 == 0 && params.layout.d_head <= kDHeadMax);
  HS_CHECK(params.n_heads % params.layout.n_kv_heads == 0);
  if (params.layout.dtype == DType::kBF16) {
    run_paged<uint16_t>(params, team);
  } else {
    run_paged<float>(params, team);
  }
}

void packed_attention_cpu(const PackedAttentionParams& params, Team& team) {
  HS_CHECK(params.d_head % 4 == 0 && params.d_head <= kDHeadMax);
  int64_t tiles_max = 0;
  for (int64_t s = 0; s < params.n_segments; ++s) {
    const int64_t tiles = segment_tiles(params, s);
    if (tiles > tiles_max) tiles_max = tiles;
  }
  const int64_t per_segment = tiles_max * params.n_heads;
  team.run(params.n_segments * per_segment, [&](int64_t item, int worker) {
    const int64_t segment = item / per_segment;
    const int64_t head = item % per_segment / tiles_max;
    const int64_t tile = item % tiles_max;
    if (tile >= segment_tiles(params, segment)) return;
    const TileMemory m =
        tile_memory(team.scratch(worker, tile_bytes(params.d_head)), params.d_head);
    attend_packed(params, segment, head, tile, m);
  });
}

}  // namespace hs::HS_ISA_NS
