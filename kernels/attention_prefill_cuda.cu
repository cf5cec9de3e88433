// Attention of many query rows on tensor cores, after FlashAttention-2 (Dao 2023): a block has 64
// query rows of one head in registers and walks over the keys 64 at a time; scores and weights
// never leave the registers.
//
// Keys and values have one buffer each in shared memory. The values of a step are copied while its
// scores are computed, the next keys while the values are used. Rows in shared memory are 16 bytes
// longer than the head, an odd number of 16-byte pieces, so that the eight rows of an ldmatrix lie
// in different banks.
#include <cmath>

#include "kernels/attention_cuda.h"
#include "kernels/portable.cuh"
#include "kernels/reduce.cuh"
#include "kernels/vector.cuh"

namespace hs::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 64;  // query rows of a block, 16 of each warp
constexpr int kKeys = 64;  // of a step
constexpr float kLog2e = 1.44269504088896341F;

template <int kHead>
constexpr int kPitch = kHead + 8;

// Both ops in one.
struct Work {
  const void* q;
  const void* k;  // of the packed op
  const void* v;
  const void* kv;  // of the paged op
  KvLayout layout;
  const int32_t* block_tables;
  const int32_t* context_lens;
  const int32_t* cu_rows;  // (n_seqs + 1)
  void* out;
  int64_t n_seqs;
  int64_t q_stride;
  int64_t out_stride;
  int32_t block_table_stride;
  int32_t n_heads;
  int32_t d_head;
  float scale;
};

// The part of the work that one block does.
struct Tile {
  int64_t seq;
  int first_row;      // in q and out
  int n_rows;         // rows that exist; 0: nothing to do
  int n_keys;         // keys that some row of the tile sees
  int seen_by_first;  // keys that the tile's first row sees, each later one sees one more; paged
                      // only
};

// Sequence i owns the tile slots from cu[i] / kRows + i on, which are as many as it can need. Grids
// have n_tokens / kRows + n_seqs slots, so no list of work is made or read on the host. Slots
// before the first sequence's stay idle.
template <bool kPaged>
HS_DEVICE Tile find_tile(const Work& w) {
  // Long contexts come last in a causal sequence: begin with them.
  const int slot = static_cast<int>(kPaged ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  int64_t low = 0, high = w.n_seqs - 1;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (w.cu_rows[middle] / kRows + middle <= slot) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const int begin = w.cu_rows[low], length = w.cu_rows[low + 1] - begin;
  const int first = static_cast<int>(slot - (begin / kRows + low)) * kRows;
  const int left = length - first;
  Tile tile{low, begin + first, left < kRows ? left : kRows, length, 0};
  if (kPaged) {
    const int context = w.context_lens[low];
    tile.seen_by_first = context - length + first + 1;
    const int by_last = tile.seen_by_first + tile.n_rows - 1;
    tile.n_keys = by_last < context ? by_last : context;
  }
  if (first < 0 || left <= 0 || tile.n_keys <= 0) tile.n_rows = 0;
  return tile;
}

// Where the keys and values of a tile's sequence stand, for one query head.
template <typename T, int kHead, bool kPaged>
struct KeyRows {
  HS_DEVICE KeyRows(const Work& work, const Tile& tile, int head) : w(work) {
    if constexpr (kPaged) {
      table = w.block_tables + tile.seq * w.block_table_stride;
      kv_head = head / (w.n_heads / w.layout.n_kv_heads);
    } else {
      first = w.cu_rows[tile.seq] * w.q_stride + int64_t{head} * w.d_head;
    }
  }
  HS_DEVICE const T* key(int i) const {
    if constexpr (kPaged) {
      const int32_t block = table[i / w.layout.block_size];
      return static_cast<const T*>(w.kv) +
             w.layout.key_index(block, kv_head, i % w.layout.block_size);
    } else {
      return static_cast<const T*>(w.k) + first + i * w.q_stride;
    }
  }
  HS_DEVICE const T* value(int i) const {
    if constexpr (kPaged) {
      return key(i) + w.layout.block_stride() / 2;
    } else {
      return static_cast<const T*>(w.v) + first + i * w.q_stride;
    }
  }

  const Work& w;
  const int32_t* table = nullptr;
  int kv_head = 0;
  int64_t first = 0;
};

// Copies rows first .. first + 63 of n to shared memory, zeros for those from n on and for columns
// from d_head on. row(i) gives the address of row i < n.
template <typename T, int kHead, typename Row>
HS_DEVICE void copy_rows(T* to, int first, int n, int d_head, const Row& row) {
  constexpr int kPieces = kHead / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPieces; i += kThreads) {
    const int r = i / kPieces, piece = i % kPieces * 8;
    const bool exists = first + r < n && piece < d_head;
    copy_async_16(to + r * kPitch<kHead> + piece, exists ? row(first + r) + piece : row(n - 1),
                  exists);
  }
  commit_async();
}

// scores (16 rows of the warp x 64 keys) = q k^T.
template <typename T, int kHead>
HS_DEVICE void score_keys(const uint32_t (&q)[kHead / 16][4], const T* keys,
                          float (&scores)[8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  HS_UNROLL
  for (int n = 0; n < kKeys / 8; n += 2) {
    HS_UNROLL
    for (int i = 0; i < 4; ++i) scores[n][i] = scores[n + 1][i] = 0;
    HS_UNROLL
    for (int k = 0; k < kHead / 16; ++k) {
      uint32_t b[4];
      const int row = n * 8 + lane % 8 + lane / 16 * 8, col = k * 16 + lane / 8 % 2 * 8;
      load_matrices(b, keys + row * kPitch<kHead> + col);
      multiply_tiles<T>(scores[n], q[k], b[0], b[1]);
      multiply_tiles<T>(scores[n + 1], q[k], b[2], b[3]);
    }
  }
}

// The two rows of a lane (lane / 4 and 8 below): largest score in powers of 2, sum of weights, and
// the sums of values.
template <int kHead>
struct Softmax {
  float largest[2];
  float sum[2];
  float acc[kHead / 8][4];
};

// Turns scores into weights. Row r of the lane sees the step's first seen[r] keys.
template <int kHead>
HS_DEVICE void weigh(Softmax<kHead>& s, float (&scores)[8][4], const int (&seen)[2], float scale) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  HS_UNROLL
  for (int r = 0; r < 2; ++r) {
    float largest = s.largest[r];
    HS_UNROLL
    for (int n = 0; n < 8; ++n) {
      HS_UNROLL
      for (int i = 2 * r; i < 2 * r + 2; ++i) {
        const int key = n * 8 + lane % 4 * 2 + i % 2;
        scores[n][i] = key < seen[r] ? scores[n][i] * scale : -INFINITY;
        largest = Max::combine(largest, scores[n][i]);
      }
    }
    largest = reduce_lanes<Max, 4>(largest);
    // A row that sees no key yet (one beyond the sequence) keeps weights of 0.
    const float base = largest == -INFINITY ? 0.0F : largest;
    const float keep = exp2f(s.largest[r] - base);
    s.largest[r] = largest;
    float sum = 0;
    HS_UNROLL
    for (int n = 0; n < 8; ++n) {
      HS_UNROLL
      for (int i = 2 * r; i < 2 * r + 2; ++i) {
        scores[n][i] = exp2f(scores[n][i] - base);
        sum += scores[n][i];
      }
    }
    s.sum[r] = s.sum[r] * keep + sum;  // over the lane's own keys; lanes are added at the end
    HS_UNROLL
    for (int n = 0; n < kHead / 8; ++n) {
      s.acc[n][2 * r] *= keep;
      s.acc[n][2 * r + 1] *= keep;
    }
  }
}

// acc += weights (16 x 64) * values (64 x kHead).
template <typename T, int kHead>
HS_DEVICE void add_values(Softmax<kHead>& s, const float (&weights)[8][4], const T* values) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  HS_UNROLL
  for (int k = 0; k < kKeys / 16; ++k) {
    // Two tiles of scores stand as the left operand already.
    const uint32_t a[4] = {pack_two<T>(weights[2 * k][0], weights[2 * k][1]),
                           pack_two<T>(weights[2 * k][2], weights[2 * k][3]),
                           pack_two<T>(weights[2 * k + 1][0], weights[2 * k + 1][1]),
                           pack_two<T>(weights[2 * k + 1][2], weights[2 * k + 1][3])};
    HS_UNROLL
    for (int n = 0; n < kHead / 8; n += 2) {
      uint32_t b[4];
      load_matrices_transposed(
          b, values + (k * 16 + lane % 16) * kPitch<kHead> + n * 8 + lane / 16 * 8);
      multiply_tiles<T>(s.acc[n], a, b[0], b[1]);
      multiply_tiles<T>(s.acc[n + 1], a, b[2], b[3]);
    }
  }
}

template <typename T, int kHead>
HS_DEVICE void store_tile(const Work& w, const Tile& tile, int head, const Softmax<kHead>& s) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  HS_UNROLL
  for (int r = 0; r < 2; ++r) {
    const float inverse = 1.0F / reduce_lanes<Sum, 4>(s.sum[r]);
    const int row = warp * 16 + lane / 4 + r * 8;
    if (row >= tile.n_rows) continue;
    T* to = static_cast<T*>(w.out) + (int64_t{tile.first_row} + row) * w.out_stride +
            int64_t{head} * w.d_head + lane % 4 * 2;
    HS_UNROLL
    for (int n = 0; n < kHead / 8; ++n) {
      if (n * 8 >= w.d_head) break;
      const float two[2] = {s.acc[n][2 * r] * inverse, s.acc[n][2 * r + 1] * inverse};
      store_floats<T>(to + n * 8, two);
    }
  }
}

template <typename T, int kHead, bool kPaged>
__global__ void __launch_bounds__(kThreads) prefill_kernel(Work w) {
  const Tile tile = find_tile<kPaged>(w);
  if (tile.n_rows == 0) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const int head = static_cast<int>(blockIdx.y);
  T* const keys = shared_as<T>();
  T* const values = keys + kRows * kPitch<kHead>;

  const KeyRows<T, kHead, kPaged> rows(w, tile, head);
  const auto key_row = [&](int key) { return rows.key(key); };
  const auto value_row = [&](int key) { return rows.value(key); };

  // The queries pass through the keys' buffer once.
  uint32_t q[kHead / 16][4];
  copy_rows<T, kHead>(keys, 0, tile.n_rows, w.d_head, [&](int row) {
    return static_cast<const T*>(w.q) + (int64_t{tile.first_row} + row) * w.q_stride +
           int64_t{head} * w.d_head;
  });
  wait_async<0>();
  __syncthreads();
  HS_UNROLL
  for (int k = 0; k < kHead / 16; ++k) {
    load_matrices(q[k], keys + (warp * 16 + lane % 16) * kPitch<kHead> + k * 16 + lane / 16 * 8);
  }
  __syncthreads();

  Softmax<kHead> s;
  HS_UNROLL
  for (int r = 0; r < 2; ++r) {
    s.largest[r] = -INFINITY;
    s.sum[r] = 0;
  }
  HS_UNROLL
  for (int n = 0; n < kHead / 8; ++n) {
    HS_UNROLL
    for (int i = 0; i < 4; ++i) s.acc[n][i] = 0;
  }
  copy_rows<T, kHead>(keys, 0, tile.n_keys, w.d_head, key_row);
  for (int first = 0; first < tile.n_keys; first += kKeys) {
    wait_async<0>();
    __syncthreads();  // the keys are there, and nobody reads the last values any more
    copy_rows<T, kHead>(values, first, tile.n_keys, w.d_head, value_row);
    float scores[8][4];
    score_keys<T, kHead>(q, keys, scores);
    wait_async<0>();
    __syncthreads();  // the values are there, and nobody reads the keys any more
    if (first + kKeys < tile.n_keys) {
      copy_rows<T, kHead>(keys, first + kKeys, tile.n_keys, w.d_head, key_row);
    }
    int seen[2];
    HS_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int row = warp * 16 + lane / 4 + r * 8;
      const int all = kPaged ? tile.seen_by_first + row : tile.n_keys;
      seen[r] = (all < tile.n_keys ? all : tile.n_keys) - first;
    }
    weigh(s, scores, seen, w.scale * kLog2e);
    add_values<T, kHead>(s, scores, values);
  }
  store_tile<T>(w, tile, head, s);
}

template <typename T, int kHead, bool kPaged>
cudaError_t launch_tiles(const Work& w, int64_t n_tokens, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(n_tokens / kRows + w.n_seqs),
                  static_cast<unsigned>(w.n_heads));
  constexpr size_t kShared = size_t{2} * kRows * kPitch<kHead> * sizeof(T);
  return launch(prefill_kernel<T, kHead, kPaged>, grid, kThreads, kShared, stream, w);
}

template <bool kPaged>
cudaError_t attend(const Work& w, DType dtype, int64_t n_tokens, cudaStream_t stream) {
  constexpr int64_t kMost = 1 << 30;
  constexpr int32_t kHeadsMax = 65535;
  if (n_tokens < 0 || n_tokens > kMost || w.n_seqs < 0 || w.n_seqs > kMost || w.n_heads <= 0 ||
      w.n_heads > kHeadsMax || w.d_head <= 0 || w.d_head > 128 || w.d_head % 8 != 0 ||
      !in_16_bytes(w.q, w.q_stride, 2) || reinterpret_cast<uintptr_t>(w.out) % 4 != 0 ||
      w.out_stride % 2 != 0) {
    return cudaErrorInvalidValue;
  }
  return with_half_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (n_tokens == 0) return cudaSuccess;
    if (w.d_head <= 32) return launch_tiles<T, 32, kPaged>(w, n_tokens, stream);
    if (w.d_head <= 64) return launch_tiles<T, 64, kPaged>(w, n_tokens, stream);
    if (w.d_head <= 80) return launch_tiles<T, 80, kPaged>(w, n_tokens, stream);
    if (w.d_head <= 96) return launch_tiles<T, 96, kPaged>(w, n_tokens, stream);
    return launch_tiles<T, 128, kPaged>(w, n_tokens, stream);
  });
}

}  // namespace

cudaError_t paged_attention(const PagedAttentionParams& p, cudaStream_t stream) {
  if (p.layout.dtype != p.dtype || p.layout.n_kv_heads <= 0 || p.layout.block_size <= 0 ||
      p.n_heads % p.layout.n_kv_heads != 0 || !in_16_bytes(p.kv, 0, 1)) {
    return cudaErrorInvalidValue;
  }
  const Work w{.q = p.q,
               .k = nullptr,
               .v = nullptr,
               .kv = p.kv,
               .layout = p.layout,
               .block_tables = p.block_tables,
               .context_lens = p.context_lens,
               .cu_rows = p.cu_query,
               .out = p.out,
               .n_seqs = p.n_seqs,
               .q_stride = p.q_stride,
               .out_stride = p.out_stride,
               .block_table_stride = p.block_table_stride,
               .n_heads = p.n_heads,
               .d_head = p.layout.d_head,
               .scale = p.scale};
  return attend<true>(w, p.dtype, p.n_tokens, stream);
}

cudaError_t packed_attention(const PackedAttentionParams& p, cudaStream_t stream) {
  if (!in_16_bytes(p.k, 0, 1) || !in_16_bytes(p.v, 0, 1)) return cudaErrorInvalidValue;
  const Work w{.q = p.q,
               .k = p.k,
               .v = p.v,
               .kv = nullptr,
               .layout = {},
               .block_tables = nullptr,
               .context_lens = nullptr,
               .cu_rows = p.cu_seqlens,
               .out = p.out,
               .n_seqs = p.n_segments,
               .q_stride = p.qkv_stride,
               .out_stride = p.out_stride,
               .block_table_stride = 0,
               .n_heads = p.n_heads,
               .d_head = p.d_head,
               .scale = p.scale};
  return attend<false>(w, p.dtype, p.n_tokens, stream);
}

}  // namespace hs::cuda
