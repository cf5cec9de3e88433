// top_k and top_p on a GPU: where to cut the tokens in the order of their logits, without sorting,
// by one block.
//
// Tokens are counted and weighed in 1,024 buckets of their scaled logit. The bucket in which the
// wanted count or weight is reached is narrowed down by buckets of the order itself until it has at
// most 1,024 tokens, and those are compared each with each. All numbers are integers: the cut is
// the exact one, in whatever order threads add.
#pragma once

#include "kernels/reduce.cuh"
#include "kernels/sampling_weights.cuh"

namespace hs::cuda {

constexpr int kSampleThreads = 1024;
constexpr int kBuckets = kSampleThreads;     // one a thread
constexpr int kCandidates = kSampleThreads;  // one a thread

// A first part of the order: the tokens of at least this order, and their weight together.
struct Cut {
  uint64_t order;
  uint64_t weight;
};

// Where the wanted amount is reached.
struct Reached {
  uint64_t wanted;  // of the bucket's own tokens
  uint64_t above;   // weight of the buckets before it
  uint32_t count;   // tokens in the bucket
  int bucket;
};

// Shared memory of a block that samples a row.
struct SampleShared {
  uint64_t bucket_weight[kBuckets];
  uint64_t candidate_order[kCandidates];
  uint32_t bucket_count[kBuckets];
  uint32_t candidate_weight[kCandidates];
  uint64_t area[kWarpsMax];
  uint64_t area2[kWarpsMax];
  Reached reached;
  Cut cut;
  uint32_t n_candidates;
};

// As reduce_block(), with a barrier, so that the area is free again.
template <typename Op>
HS_DEVICE uint64_t reduce_row(uint64_t value, uint64_t none, SampleShared& s) {
  const uint64_t result = reduce_block<Op>(value, none, s.area);
  __syncthreads();
  return result;
}

// Calls visit(logit, id) for this thread's tokens.
template <typename Visit>
HS_DEVICE void for_my_tokens(const WeightedRow& row, const Visit& visit) {
  for (int64_t i = threadIdx.x; i < row.n; i += kSampleThreads) visit(row.x[i], i);
}

// The sum of the values of the threads before this one.
HS_DEVICE uint64_t sum_before(uint64_t value, uint64_t* area) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  uint64_t sum = value;
  HS_UNROLL
  for (unsigned apart = 1; apart < kWarp; apart *= 2) {
    const uint64_t before = __shfl_up_sync(kAllLanes, sum, apart);
    if (lane >= static_cast<int>(apart)) sum += before;
  }
  if (lane == kWarp - 1) area[warp] = sum;
  __syncthreads();
  const uint64_t of_warps = reduce_lanes<Sum>(lane < warp ? area[lane] : uint64_t{0});
  return of_warps + sum - value;
}

// Fills the buckets with the tokens that have weight; bucket_of(logit, order) is -1 for others that
// do not count.
template <typename BucketOf>
HS_DEVICE void fill_buckets(const WeightedRow& row, SampleShared& s, const BucketOf& bucket_of) {
  s.bucket_count[threadIdx.x] = 0;
  s.bucket_weight[threadIdx.x] = 0;
  __syncthreads();
  for_my_tokens(row, [&](float x, int64_t id) {
    const uint32_t weight = weight_of(row, x);
    if (weight == 0) return;
    const int bucket = bucket_of(x, order_of(x, id));
    if (bucket < 0) return;
    add_shared(&s.bucket_count[bucket], 1U);
    add_shared(&s.bucket_weight[bucket], uint64_t{weight});
  });
  __syncthreads();
}

// The bucket in which `wanted` is reached; some bucket must.
HS_DEVICE_CALL Reached find_bucket(SampleShared& s, bool by_weight, uint64_t wanted) {
  const uint64_t weight = s.bucket_weight[threadIdx.x], count = s.bucket_count[threadIdx.x];
  const uint64_t weight_before = sum_before(weight, s.area);
  const uint64_t count_before = sum_before(count, s.area2);
  const uint64_t before = by_weight ? weight_before : count_before;
  if (before < wanted && wanted <= before + (by_weight ? weight : count)) {
    s.reached = {wanted - before, weight_before, static_cast<uint32_t>(count),
                 static_cast<int>(threadIdx.x)};
  }
  __syncthreads();
  const Reached reached = s.reached;
  __syncthreads();
  return reached;
}

// Orders between low and high, which are narrowed until few tokens are between them.
struct Range {
  uint64_t low;
  uint64_t high;
};

HS_DEVICE_CALL Reached narrow(const WeightedRow& row, SampleShared& s, bool by_weight,
                              Reached reached, Range* range) {
  uint64_t above = reached.above;
  while (reached.count > kCandidates) {
    int shift = 0;
    while ((range->high - range->low) >> shift >= kBuckets) ++shift;
    const Range now = *range;
    fill_buckets(row, s, [&](float, uint64_t order) {
      return order < now.low || order > now.high ? -1
                                                 : static_cast<int>((now.high - order) >> shift);
    });
    reached = find_bucket(s, by_weight, reached.wanted);
    above += reached.above;
    range->high = now.high - (static_cast<uint64_t>(reached.bucket) << shift);
    const uint64_t width = uint64_t{1} << shift;
    range->low = range->high - now.low < width ? now.low : range->high - width + 1;
  }
  reached.above = above;
  return reached;
}

// Collects the tokens for which inside(logit, order) holds, at most kCandidates.
template <typename Inside>
HS_DEVICE void collect(const WeightedRow& row, SampleShared& s, const Inside& inside) {
  if (threadIdx.x == 0) s.n_candidates = 0;
  __syncthreads();
  for_my_tokens(row, [&](float x, int64_t id) {
    const uint32_t weight = weight_of(row, x);
    const uint64_t order = order_of(x, id);
    if (weight == 0 || !inside(x, order)) return;
    const uint32_t at = add_shared(&s.n_candidates, 1U);
    s.candidate_order[at] = order;
    s.candidate_weight[at] = weight;
  });
  __syncthreads();
}

// The shortest first part of the order with at least `wanted` tokens, or of at least that weight;
// the whole row must reach it.
HS_DEVICE_CALL Cut find_cut(const WeightedRow& row, SampleShared& s, bool by_weight,
                            uint64_t wanted) {
  // Tokens with weight have -21.5 <= scaled <= 0.
  const auto scaled_bucket = [&](float x, uint64_t) {
    const float at = scaled(row, x) * (-kBuckets / 22.0F);
    return static_cast<int>(at < kBuckets - 1 ? at : kBuckets - 1);
  };
  fill_buckets(row, s, scaled_bucket);
  Reached reached = find_bucket(s, by_weight, wanted);
  const int bucket = reached.bucket;
  if (reached.count <= kCandidates) {
    collect(row, s, [&](float x, uint64_t order) { return scaled_bucket(x, order) == bucket; });
  } else {
    uint64_t low = ~uint64_t{0}, high = 0;
    for_my_tokens(row, [&](float x, int64_t id) {
      const uint64_t order = order_of(x, id);
      if (weight_of(row, x) == 0 || scaled_bucket(x, order) != bucket) return;
      low = order < low ? order : low;
      high = order > high ? order : high;
    });
    Range range{~reduce_row<Max>(~low, 0, s), reduce_row<Max>(high, 0, s)};
    reached = narrow(row, s, by_weight, reached, &range);
    collect(row, s,
            [&](float, uint64_t order) { return order >= range.low && order <= range.high; });
  }
  if (threadIdx.x < s.n_candidates) {
    const uint64_t mine = s.candidate_order[threadIdx.x];
    const uint64_t weight = s.candidate_weight[threadIdx.x];
    uint64_t count_before = 0, weight_before = 0;
    for (uint32_t i = 0; i < s.n_candidates; ++i) {
      const bool before = s.candidate_order[i] > mine;
      count_before += before ? 1 : 0;
      weight_before += before ? s.candidate_weight[i] : 0;
    }
    const uint64_t before = by_weight ? weight_before : count_before;
    if (before < reached.wanted && reached.wanted <= before + (by_weight ? weight : 1)) {
      s.cut = {mine, reached.above + weight_before + weight};
    }
  }
  __syncthreads();
  const Cut cut = s.cut;
  __syncthreads();
  return cut;
}

}  // namespace hs::cuda
