// top_k, top_p and min_p: where to cut the tokens ordered by logit (lowest id first among equals),
// without sorting.
//
// Tokens are counted and weighed in buckets of their scaled logit; the bucket in which the wanted
// count or weight is reached is narrowed down in the same way until few or only equal tokens are
// left. Buckets only steer the search: the cut found is exact.
#pragma once

#include "kernels/sampling_weights.h"

namespace hs::HS_ISA_NS {

constexpr int kBuckets = 1024;
constexpr int64_t kFew = 32;

// A first part of the order: the tokens above `value`, and of those equal to it the ones up to
// `id`.
struct Cut {
  float value = 0;
  int32_t id = 0;
  uint64_t weight = 0;  // of the tokens in it
};

// How much of the order is wanted: the shortest part with at least `amount` tokens, or of at least
// that weight.
struct Wanted {
  bool by_weight = false;
  uint64_t amount = 0;
};

struct Bucket {
  uint64_t count = 0;
  uint64_t weight = 0;
  [[gnu::always_inline]] void add(uint32_t w) {
    count += w != 0;
    weight += w;
  }
  uint64_t amount(bool by_weight) const { return by_weight ? weight : count; }
};

struct Candidate {
  float x;
  uint32_t weight;
  int32_t id;
};

struct CutMemory {
  Bucket* buckets = nullptr;        // (kBuckets) of the whole row
  Bucket* narrow = nullptr;         // (kBuckets) of the candidates
  Candidate* candidates = nullptr;  // (n)
};

// Buckets of a row: tokens with weight have -21.5 <= scaled <= 0.
HS_INLINE I32 bucket_of(const WeightedRow& row, F32 x) {
  const F32 at = scaled(row, x) * (-kBuckets / 22.0F);
  const F32 last = splat(kBuckets - 1);
  return __builtin_convertvector(at < last ? at : last, I32);
}

// Counts the tokens that have weight.
static void fill_buckets(const WeightedRow& row, Bucket* buckets) {
  for (int b = 0; b < kBuckets; ++b) buckets[b] = {};
  for (int64_t i = 0; i < row.n; i += kLanes) {
    const int64_t n = row.n - i < kLanes ? row.n - i : kLanes;
    const bool full = n == kLanes;
    if (full && !any(load_u32_n(row.weight + i, kLanes) != 0)) continue;
    const I32 bucket = bucket_of(row, full ? load(row.x + i) : load_n(row.x + i, n));
    int32_t at[kLanes];
    std::memcpy(at, &bucket, sizeof at);
    if (full) {
#pragma GCC unroll 16
      for (int lane = 0; lane < kLanes; ++lane) buckets[at[lane]].add(row.weight[i + lane]);
    } else {
      for (int64_t lane = 0; lane < n; ++lane) buckets[at[lane]].add(row.weight[i + lane]);
    }
  }
}

// The bucket in which `wanted` is reached; takes what stands above it off wanted and adds its
// weight to `above`. kBuckets if it is not reached.
static int bucket_reaching(const Bucket* buckets, Wanted& wanted, uint64_t& above) {
  for (int b = 0; b < kBuckets; ++b) {
    const uint64_t amount = buckets[b].amount(wanted.by_weight);
    if (amount >= wanted.amount) return b;
    wanted.amount -= amount;
    above += buckets[b].weight;
  }
  return kBuckets;
}

// The tokens of one bucket, in id order.
static int64_t take_bucket(const WeightedRow& row, int bucket, Candidate* to) {
  int64_t found = 0;
  for (int64_t i = 0; i < row.n; i += kLanes) {
    const int64_t n = row.n - i < kLanes ? row.n - i : kLanes;
    const I32 buckets = bucket_of(row, n == kLanes ? load(row.x + i) : load_n(row.x + i, n));
    if (!any(buckets == bucket)) continue;
    for (int64_t j = i; j < i + n; ++j) {
      if (buckets[j - i] != bucket || row.weight[j] == 0) continue;
      to[found++] = {row.x[j], row.weight[j], static_cast<int32_t>(j)};
    }
  }
  return found;
}

struct Range {
  double low = 0, high = 0;
  // 0 for the highest value.
  int bucket(float x) const {
    return static_cast<int>((high - static_cast<double>(x)) * ((kBuckets - 1) / (high - low)));
  }
};

static Range range_of(const Candidate* c, int64_t n) {
  float low = c[0].x, high = c[0].x;
  for (int64_t i = 1; i < n; ++i) {
    low = c[i].x < low ? c[i].x : low;
    high = c[i].x > high ? c[i].x : high;
  }
  return {static_cast<double>(low), static_cast<double>(high)};
}

// Keeps the candidates of the bucket in which `wanted` is reached, in id order.
static int64_t narrow(const CutMemory& memory, int64_t n, const Range& range, Wanted& wanted,
                      uint64_t& above) {
  Candidate* c = memory.candidates;
  for (int b = 0; b < kBuckets; ++b) memory.narrow[b] = {};
  for (int64_t i = 0; i < n; ++i) {
    Bucket& b = memory.narrow[range.bucket(c[i].x)];
    ++b.count;
    b.weight += c[i].weight;
  }
  const int bucket = bucket_reaching(memory.narrow, wanted, above);
  int64_t kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (range.bucket(c[i].x) == bucket) c[kept++] = c[i];
  }
  return kept;
}

// Insertion keeps the id order among equals.
static void sort_few(Candidate* c, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const Candidate moved = c[i];
    int64_t j = i;
    for (; j > 0 && c[j - 1].x < moved.x; --j) c[j] = c[j - 1];
    c[j] = moved;
  }
}

// The cut for `wanted`, which must be reached by the row's tokens. buckets must be filled.
static Cut find_cut(const WeightedRow& row, const CutMemory& memory, Wanted wanted) {
  uint64_t weight = 0;
  const int bucket = bucket_reaching(memory.buckets, wanted, weight);
  int64_t n = take_bucket(row, bucket, memory.candidates);
  Range range = range_of(memory.candidates, n);
  while (n > kFew && range.low < range.high) {
    n = narrow(memory, n, range, wanted, weight);
    range = range_of(memory.candidates, n);
  }
  Candidate* c = memory.candidates;
  if (range.low < range.high) sort_few(c, n);
  for (int64_t i = 0;; ++i) {
    weight += c[i].weight;
    const uint64_t amount = wanted.by_weight ? c[i].weight : 1;
    if (amount >= wanted.amount || i + 1 == n) return {c[i].x, c[i].id, weight};
    wanted.amount -= amount;
  }
}

// Sets the weights of tokens outside the cut, and of those below weight_min, to 0.
static void apply_cut(WeightedRow& row, const Cut& cut, uint32_t weight_min) {
  const auto floor = static_cast<int32_t>(weight_min);
  fill_weights(row, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
    const bool full = n == kLanes;
    const F32 x = full ? load(row.x + i) : load_n(row.x + i, n);
    const U32 weight = full ? load_u32_n(row.weight + i, kLanes) : load_u32_n(row.weight + i, n);
    const I32 ids = lane_numbers() + static_cast<int32_t>(i);
    const I32 inside = (x > splat(cut.value)) | ((x == splat(cut.value)) & (ids <= cut.id));
    const I32 enough = reinterpret_cast<I32>(weight) >= floor;
    return weight & reinterpret_cast<U32>(inside & enough);
  });
}

}  // namespace hs::HS_ISA_NS
