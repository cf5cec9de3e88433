// Attention of single query rows over the paged cache: memory-bound, so every key and value is read
// once for all query heads that share it, 16 bytes a lane, several keys ahead.
//
// A few lanes make a stream: they hold one head row (16 bytes each), walk over keys of their own
// and keep the running softmax of each query head (Milakov and Gimelshein 2018). The streams of a
// block are merged at its end, the blocks of a context by a second kernel.
#include <cmath>

#include "kernels/attention_cuda.h"
#include "kernels/portable.cuh"
#include "kernels/reduce.cuh"
#include "kernels/vector.cuh"

namespace hs::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kHeadMax = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr float kLog2e = 1.44269504088896341F;
constexpr float kLowest = -INFINITY;

// What one chunk of one query head leaves behind: d sums of values, then the largest score (in
// powers of 2) and the sum of weights.
HS_DEVICE float* partial_of(const DecodeAttentionParams& p, int64_t seq, int head, int chunk) {
  const int64_t index = (seq * p.n_heads + head) * p.n_chunks_max + chunk;
  return p.workspace + index * (p.layout.d_head + 2);
}

template <typename T>
HS_DEVICE T* out_of(const DecodeAttentionParams& p, int64_t seq, int head) {
  return static_cast<T*>(p.out) + seq * p.out_stride + int64_t{head} * p.layout.d_head;
}

// exp2 of a difference of scores; lowest - lowest counts as lowest.
HS_DEVICE float weight_of(float score, float largest) {
  return largest == kLowest ? 0.0F : exp2f(score - largest);
}

// The softmax of kHeads query heads over one stream's keys; a lane has kN of the d values.
template <int kHeads, int kN>
struct Stream {
  float largest[kHeads];
  float sum[kHeads];
  float acc[kHeads][kN];
};

template <int kHeads, int kN>
HS_DEVICE void clear(Stream<kHeads, kN>& s) {
  HS_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    s.largest[h] = kLowest;
    s.sum[h] = 0;
    HS_UNROLL
    for (int i = 0; i < kN; ++i) s.acc[h][i] = 0;
  }
}

// Adds kKeys keys; a score of kLowest is no key.
template <int kHeads, int kN, int kKeys, typename T>
HS_DEVICE void add_keys(Stream<kHeads, kN>& s, const float (&scores)[kHeads][kKeys],
                        const uint4 (&values)[kKeys]) {
  float weights[kHeads][kKeys];
  HS_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    float largest = s.largest[h];
    HS_UNROLL
    for (int u = 0; u < kKeys; ++u) largest = Max::combine(largest, scores[h][u]);
    const float keep = weight_of(s.largest[h], largest);
    s.largest[h] = largest;
    s.sum[h] *= keep;
    HS_UNROLL
    for (int i = 0; i < kN; ++i) s.acc[h][i] *= keep;
    HS_UNROLL
    for (int u = 0; u < kKeys; ++u) {
      weights[h][u] = weight_of(scores[h][u], largest);
      s.sum[h] += weights[h][u];
    }
  }
  HS_UNROLL
  for (int u = 0; u < kKeys; ++u) {
    float v[kN];
    unpack<T>(values[u], v);
    HS_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      HS_UNROLL
      for (int i = 0; i < kN; ++i) s.acc[h][i] += weights[h][u] * v[i];
    }
  }
}

// Merges the streams of a warp; every lane then has the warp's sums of its kN values.
template <int kHeads, int kN, int kLanes>
HS_DEVICE void merge_streams(Stream<kHeads, kN>& s) {
  HS_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    HS_UNROLL
    for (int apart = kLanes; apart < kWarp; apart *= 2) {
      const float other = __shfl_xor_sync(kAllLanes, s.largest[h], apart);
      const float largest = Max::combine(s.largest[h], other);
      const float keep = weight_of(s.largest[h], largest);
      s.largest[h] = largest;
      s.sum[h] *= keep;
      s.sum[h] += __shfl_xor_sync(kAllLanes, s.sum[h], apart);
      HS_UNROLL
      for (int i = 0; i < kN; ++i) {
        s.acc[h][i] *= keep;
        s.acc[h][i] += __shfl_xor_sync(kAllLanes, s.acc[h][i], apart);
      }
    }
  }
}

// The part of a query row that a lane holds, scaled so that weights are powers of 2.
template <typename T, int kHeads, int kN>
HS_DEVICE void load_queries(const DecodeAttentionParams& p, int64_t seq, int first_head,
                            int n_heads, int at, float (&q)[kHeads][kN]) {
  const T* from = static_cast<const T*>(p.q) + seq * p.q_stride;
  HS_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    HS_UNROLL
    for (int i = 0; i < kN; ++i) {
      const bool here = h < n_heads && at + i < p.layout.d_head;
      const int64_t index = int64_t{first_head + h} * p.layout.d_head + at + i;
      q[h][i] = here ? to_float(from[index]) * (p.scale * kLog2e) : 0.0F;
    }
  }
}

// Merges the block's warps through shared memory and writes the heads' results.
template <typename T, int kHeads, int kN, int kLanes>
HS_DEVICE void finish_block(const DecodeAttentionParams& p, const Stream<kHeads, kN>& s,
                            int64_t seq, int first_head, int n_heads, int chunk) {
  constexpr int kWidth = kLanes * kN + 2;  // as partial_of()
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const int d = p.layout.d_head;
  float* const area = shared_as<float>();
  if (lane < kLanes) {
    HS_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      float* to = area + (warp * kHeads + h) * kWidth;
      HS_UNROLL
      for (int i = 0; i < kN; ++i) to[lane * kN + i] = s.acc[h][i];
      if (lane == 0) {
        to[kWidth - 2] = s.largest[h];
        to[kWidth - 1] = s.sum[h];
      }
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < n_heads * d; i += kThreads) {
    const int h = i / d, at = i % d;
    float largest = kLowest, sum = 0, acc = 0;
    HS_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      largest = Max::combine(largest, area[(w * kHeads + h) * kWidth + kWidth - 2]);
    }
    HS_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      const float* from = area + (w * kHeads + h) * kWidth;
      const float keep = weight_of(from[kWidth - 2], largest);
      sum += keep * from[kWidth - 1];
      acc += keep * from[at];
    }
    if (p.n_chunks_max == 1) {
      out_of<T>(p, seq, first_head + h)[at] = from_float<T>(sum > 0 ? acc / sum : 0.0F);
      continue;
    }
    float* to = partial_of(p, seq, first_head + h, chunk);
    to[at] = acc;
    if (at == 0) {
      to[d] = largest;
      to[d + 1] = sum;
    }
  }
}

// Grid: chunks, kv heads times passes over their query heads, sequences.
template <typename T, int kHeads, int kLanes>
__global__ void __launch_bounds__(kThreads) decode_kernel(DecodeAttentionParams p) {
  constexpr int kN = kPerAccess<T>;
  constexpr int kStreams = kThreads / kLanes;
  constexpr int kKeys = kHeads > 4 ? 2 : 4;  // ahead, as registers allow
  const int group = p.n_heads / p.layout.n_kv_heads;
  const int n_passes = (group + kHeads - 1) / kHeads;
  const int kv_head = static_cast<int>(blockIdx.y) / n_passes;
  const int pass = static_cast<int>(blockIdx.y) % n_passes;
  const int first_head = kv_head * group + pass * kHeads;
  const int n_heads = group - pass * kHeads < kHeads ? group - pass * kHeads : kHeads;
  const int64_t seq = blockIdx.z;
  const int chunk = static_cast<int>(blockIdx.x);
  const int context = p.context_lens[seq];
  const int begin = chunk * p.chunk_tokens;
  if (chunk > 0 && begin >= context) return;
  const int end = begin + p.chunk_tokens < context ? begin + p.chunk_tokens : context;

  const int stream = static_cast<int>(threadIdx.x) / kLanes;
  const int at = static_cast<int>(threadIdx.x) % kLanes * kN;
  const bool holds = at < p.layout.d_head;
  float q[kHeads][kN];
  load_queries<T>(p, seq, first_head, n_heads, at, q);
  const T* const kv = static_cast<const T*>(p.kv);
  const int32_t* const table = p.block_tables + seq * p.block_table_stride;
  const int64_t values_apart = p.layout.block_stride() / 2;
  Stream<kHeads, kN> s;
  clear(s);
  for (int first = begin; first < end; first += kStreams * kKeys) {
    uint4 keys[kKeys], values[kKeys];
    HS_UNROLL
    for (int u = 0; u < kKeys; ++u) {
      const int key = first + u * kStreams + stream;
      const bool valid = key < end && holds;
      const int32_t block = valid ? table[key / p.layout.block_size] : 0;
      const T* from = kv + at + p.layout.key_index(block, kv_head, key % p.layout.block_size);
      keys[u] = load_once_16(from, valid);
      values[u] = load_once_16(from + values_apart, valid);
    }
    float scores[kHeads][kKeys];
    HS_UNROLL
    for (int u = 0; u < kKeys; ++u) {
      float k[kN];
      unpack<T>(keys[u], k);
      HS_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        float dot = 0;
        HS_UNROLL
        for (int i = 0; i < kN; ++i) dot += q[h][i] * k[i];
        dot = reduce_lanes<Sum, kLanes>(dot);
        scores[h][u] = first + u * kStreams + stream < end ? dot : kLowest;
      }
    }
    add_keys<kHeads, kN, kKeys, T>(s, scores, values);
  }
  merge_streams<kHeads, kN, kLanes>(s);
  finish_block<T, kHeads, kN, kLanes>(p, s, seq, first_head, n_heads, chunk);
}

// Grid: query heads, sequences.
template <typename T>
__global__ void __launch_bounds__(kThreads) merge_kernel(DecodeAttentionParams p) {
  const int64_t seq = blockIdx.y;
  const int head = static_cast<int>(blockIdx.x), d = p.layout.d_head;
  const int context = p.context_lens[seq];
  const int n_chunks = context > 0 ? (context + p.chunk_tokens - 1) / p.chunk_tokens : 1;
  const float* const parts = partial_of(p, seq, head, 0);
  float largest = kLowest;
  for (int c = 0; c < n_chunks; ++c) largest = Max::combine(largest, parts[c * (d + 2) + d]);
  for (int at = static_cast<int>(threadIdx.x); at < d; at += kThreads) {
    float sum = 0, acc = 0;
    for (int c = 0; c < n_chunks; ++c) {
      const float* part = parts + c * (d + 2);
      const float keep = weight_of(part[d], largest);
      sum += keep * part[d + 1];
      acc += keep * part[at];
    }
    out_of<T>(p, seq, head)[at] = from_float<T>(sum > 0 ? acc / sum : 0.0F);
  }
}

template <typename T, int kHeads, int kLanes>
cudaError_t launch_decode(const DecodeAttentionParams& p, cudaStream_t stream) {
  const int group = p.n_heads / p.layout.n_kv_heads;
  const int64_t passes = div_up(group, kHeads);
  const dim3 grid(static_cast<unsigned>(p.n_chunks_max),
                  static_cast<unsigned>(p.layout.n_kv_heads * passes),
                  static_cast<unsigned>(p.n_seqs));
  constexpr size_t kShared = size_t{kWarps} * kHeads * (kLanes * kPerAccess<T> + 2) * sizeof(float);
  const cudaError_t status =
      launch(decode_kernel<T, kHeads, kLanes>, grid, kThreads, kShared, stream, p);
  if (status != cudaSuccess || p.n_chunks_max == 1) return status;
  const dim3 heads(static_cast<unsigned>(p.n_heads), static_cast<unsigned>(p.n_seqs));
  return launch(merge_kernel<T>, heads, kThreads, 0, stream, p);
}

// As many lanes as hold a head row of 64, or of 128.
template <typename T, int kHeads>
cudaError_t with_lanes(const DecodeAttentionParams& p, cudaStream_t stream) {
  constexpr int kFew = 64 / kPerAccess<T>;
  return p.layout.d_head <= 64 ? launch_decode<T, kHeads, kFew>(p, stream)
                               : launch_decode<T, kHeads, 2 * kFew>(p, stream);
}

bool valid(const DecodeAttentionParams& p) {
  constexpr int64_t kSeqsMax = 65535;
  const KvLayout& kv = p.layout;
  return kv.dtype == p.dtype && kv.n_kv_heads > 0 && kv.block_size > 0 && kv.d_head > 0 &&
         kv.d_head <= kHeadMax &&
         kv.d_head * static_cast<int64_t>(dtype_bytes(p.dtype)) % 16 == 0 && p.n_seqs >= 0 &&
         p.n_seqs <= kSeqsMax && p.n_heads > 0 && p.n_heads % kv.n_kv_heads == 0 &&
         p.chunk_tokens > 0 && p.n_chunks_max > 0 && in_16_bytes(p.kv, 0, 1) &&
         (p.n_chunks_max == 1 || p.n_seqs == 0 || p.workspace != nullptr);
}

}  // namespace

size_t decode_attention_workspace_bytes(const DecodeAttentionParams& p) {
  if (p.n_chunks_max <= 1) return 0;
  return static_cast<size_t>(p.n_seqs) * static_cast<size_t>(p.n_heads) *
         static_cast<size_t>(p.n_chunks_max) * static_cast<size_t>(p.layout.d_head + 2) *
         sizeof(float);
}

cudaError_t decode_attention(const DecodeAttentionParams& p, cudaStream_t stream) {
  if (!valid(p)) return cudaErrorInvalidValue;
  return with_type(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (p.n_seqs == 0) return cudaSuccess;
    const int group = p.n_heads / p.layout.n_kv_heads;
    if (group == 1) return with_lanes<T, 1>(p, stream);
    if constexpr (sizeof(T) == 2) {
      if (group > 4) return with_lanes<T, 8>(p, stream);
    }
    return with_lanes<T, 4>(p, stream);
  });
}

}  // namespace hs::cuda
