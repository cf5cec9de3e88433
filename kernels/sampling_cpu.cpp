// Compiled without contraction to FMA (kernels/CMakeLists.txt): a weight then has the same bits at
// every level, and with the exact sums of sampling_weights.h so has the sampled token.
#include "base/check.h"
#include "kernels/philox.h"
#include "kernels/sampling.h"
#include "kernels/sampling_cut.h"

namespace hs::HS_ISA_NS {
namespace {

struct Memory {
  float* allowed = nullptr;  // (vocab): the logits after penalties, without the banned ids
  WeightedRow row;
  CutMemory cut;
};

int64_t aligned(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Lays the arrays out in `area`; with a null area only counts the bytes.
size_t lay_out(Memory& m, std::byte* area, int64_t vocab) {
  int64_t used = 0;
  const auto take = [&](auto*& array, int64_t n) {
    if (area != nullptr) array = reinterpret_cast<decltype(array + 0)>(area + used);
    used += aligned(n * static_cast<int64_t>(sizeof *array));
  };
  take(m.allowed, vocab);
  take(m.row.weight, vocab);
  take(m.row.block_sum, vocab / kWeightBlock + 1);
  take(m.cut.buckets, kBuckets);
  take(m.cut.narrow, kBuckets);
  take(m.cut.candidates, vocab);
  return static_cast<size_t>(used);
}

bool all_finite(const float* x, int64_t n) {
  I32 bad{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    bad |= (reinterpret_cast<I32>(load(x + i)) & 0x7F800000) == 0x7F800000;
  }
  if (i < n) bad |= (reinterpret_cast<I32>(load_n(x + i, n - i)) & 0x7F800000) == 0x7F800000;
  return !any(bad);
}

float largest_of(const float* x, int64_t n) {
  F32 top = splat(x[0]), top2 = top;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    top = max(load(x + i), top);
    top2 = max(load(x + i + kLanes), top2);
  }
  float largest = max_lane(max(top, top2));
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// The lowest id with this value, which some id has.
int32_t first_equal(const float* x, int64_t n, float value) {
  int64_t i = 0;
  while (i + kLanes <= n && !any(load(x + i) == splat(value))) i += kLanes;
  while (x[i] != value) ++i;
  return static_cast<int32_t>(i);
}

// Finite logits stay finite, whatever the penalty.
float penalised(float logit, const TokenCount& token, const SamplingRow& settings) {
  float value =
      logit > 0 ? logit / settings.repetition_penalty : logit * settings.repetition_penalty;
  value -= settings.frequency_penalty * static_cast<float>(token.n_output);
  if (token.n_output > 0) value -= settings.presence_penalty;
  constexpr float kMost = __FLT_MAX__;
  return value > kMost ? kMost : value < -kMost ? -kMost : value;
}

// The logits after penalties and biases.
void copy_adjusted(const SamplingRow& settings, const float* x, int64_t vocab, float* copy) {
  std::memcpy(copy, x, static_cast<size_t>(vocab) * sizeof(float));
  for (int32_t i = 0; i < settings.n_counts; ++i) {
    const TokenCount& token = settings.counts[i];
    if (token.id >= 0 && token.id < vocab) copy[token.id] = penalised(x[token.id], token, settings);
  }
  for (int32_t i = 0; i < settings.n_biases; ++i) {
    const TokenBias& token = settings.biases[i];
    if (token.id >= 0 && token.id < vocab) copy[token.id] += token.bias;
  }
}

// Ids without a set bit can no longer be sampled.
void apply_mask(const uint32_t* allowed, int64_t vocab, float* copy) {
  constexpr int64_t kBits = 32;
  for (int64_t begin = 0; begin < vocab; begin += kBits) {
    const uint32_t bits = allowed[begin / kBits];
    const int64_t n = vocab - begin < kBits ? vocab - begin : kBits;
    if (bits == 0xFFFFFFFFU) continue;
    // A mask of a JSON text has few words that are neither all ones nor all zeros.
    if (bits == 0 && n == kBits) {
      for (int64_t i = 0; i < kBits; i += kLanes) store(copy + begin + i, splat(-__builtin_inff()));
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      if ((bits >> i & 1U) == 0) copy[begin + i] = -__builtin_inff();
    }
  }
}

bool anything_left(const float* x, int64_t vocab) {
  return largest_of(x, vocab) > -__builtin_inff();
}

// The logits after penalties and biases, of allowed ids; without the banned ids unless nothing
// would be left.
const float* allowed_logits(const SamplingRow& settings, const float* x, int64_t vocab,
                            float* copy) {
  const int32_t n_banned = settings.ban_eos ? settings.n_banned : 0;
  const bool masked = settings.allowed != nullptr;
  if (settings.n_counts == 0 && settings.n_biases == 0 && n_banned == 0 && !masked) return x;
  copy_adjusted(settings, x, vocab, copy);
  if (masked) apply_mask(settings.allowed, vocab, copy);
  for (int32_t i = 0; i < n_banned; ++i) {
    const int32_t id = settings.banned_ids[i];
    if (id >= 0 && id < vocab) copy[id] = -__builtin_inff();
  }
  if (!masked && n_banned == 0) return copy;
  if (n_banned > 0 && !anything_left(copy, vocab)) {
    copy_adjusted(settings, x, vocab, copy);
    if (masked) apply_mask(settings.allowed, vocab, copy);
  }
  if (masked && !anything_left(copy, vocab)) copy_adjusted(settings, x, vocab, copy);
  return copy;
}

// 2^30 times a share of at least 0, rounded up; all tokens reach at most 2^30.
uint32_t weight_of_share(float share) {
  const double weight = static_cast<double>(share) * static_cast<double>(kTopWeight);
  if (!(weight > 0)) return 0;
  if (weight >= static_cast<double>(kTopWeight)) return static_cast<uint32_t>(kTopWeight);
  return static_cast<uint32_t>(__builtin_ceil(weight));
}

void cut_row(const SamplingRow& settings, WeightedRow& row, const CutMemory& memory) {
  const bool by_count = settings.top_k > 0 && settings.top_k < row.n;
  const bool by_weight = settings.top_p < 1;
  Cut cut = {-__builtin_inff(), 0, row.total};
  if (by_count || by_weight) fill_buckets(row, memory.buckets);
  if (by_count) {
    uint64_t with_weight = 0;
    for (int b = 0; b < kBuckets; ++b) with_weight += memory.buckets[b].count;
    const auto k = static_cast<uint64_t>(settings.top_k);
    if (k < with_weight) cut = find_cut(row, memory, {false, k});
  }
  if (by_weight) {
    const double share = settings.top_p > 0 ? static_cast<double>(settings.top_p) : 0;
    auto wanted = static_cast<uint64_t>(__builtin_ceil(share * static_cast<double>(cut.weight)));
    if (wanted < 1) wanted = 1;
    if (wanted < cut.weight) cut = find_cut(row, memory, {true, wanted});
  }
  const uint32_t weight_min = weight_of_share(settings.min_p);
  if (by_count || by_weight || weight_min > 0) apply_cut(row, cut, weight_min);
}

int32_t draw(const SamplingRow& settings, const float* x, int64_t vocab, Memory& m) {
  WeightedRow& row = m.row;
  constexpr float kInverseMax =
      1e37F;  // a temperature next to 0 leaves the top tokens alone with weight
  row.x = x;
  row.n = vocab;
  row.largest = largest_of(x, vocab);
  row.inverse_temperature = 1.0F / settings.temperature;
  if (!(row.inverse_temperature < kInverseMax)) row.inverse_temperature = kInverseMax;
  weigh_row(row);
  cut_row(settings, row, m.cut);
  const PhiloxBlock random =
      philox4x32({{settings.position, settings.choice, 0, 0}}, settings.seed);
  const uint64_t u = random.word[0] | (uint64_t{random.word[1]} << 32);
  const auto at = static_cast<uint64_t>((static_cast<unsigned __int128>(u) * row.total) >> 64);
  return token_at(row, at);
}

// log of the sum of exp(x): up to 1,024 terms in float32, the rest in float64.
double log_sum_exp(const float* x, int64_t n) {
  const float largest = largest_of(x, n);
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kWeightBlock) {
    const int64_t end = begin + kWeightBlock < n ? begin + kWeightBlock : n;
    F32 s0{}, s1{};
    int64_t i = begin;
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
      s0 += exp(load(x + i) - largest);
      s1 += exp(load(x + i + kLanes) - largest);
    }
    for (; i < end; i += kLanes) {
      const int64_t left = end - i < kLanes ? end - i : kLanes;
      const F32 term = exp(load_n(x + i, left) - largest);
      s0 += lane_numbers() < static_cast<int32_t>(left) ? term : F32{};
    }
    total += static_cast<double>(sum(s0 + s1));
  }
  return static_cast<double>(largest) + __builtin_log(total);
}

float log_probability(float x, double log_sum) {
  const double value = static_cast<double>(x) - log_sum;
  return value < -9999.0 ? -9999.0F : static_cast<float>(value);
}

// The n largest logits with their ids, largest first, lowest id first among equals. n <=
// kMaxTopLogprobs.
void find_top(const float* x, int64_t vocab, int n, int32_t* ids) {
  float value[kMaxTopLogprobs];
  int found = 0;
  const auto insert = [&](float v, int64_t id) {
    int at = found < n ? found++ : n - 1;
    for (; at > 0 && value[at - 1] < v; --at) {
      value[at] = value[at - 1];
      ids[at] = ids[at - 1];
    }
    value[at] = v;
    ids[at] = static_cast<int32_t>(id);
  };
  for (int64_t i = 0; i < vocab; i += kLanes) {
    const int64_t left = vocab - i < kLanes ? vocab - i : kLanes;
    if (found == n && left == kLanes && !any(load(x + i) > splat(value[n - 1]))) continue;
    for (int64_t j = i; j < i + left; ++j) {
      if (found < n || x[j] > value[n - 1]) insert(x[j], j);
    }
  }
}

void add_logprobs(const SamplingRow& settings, const float* x, int64_t vocab, SampledToken* out) {
  const double log_sum = log_sum_exp(x, vocab);
  out->logprob = log_probability(x[out->id], log_sum);
  int64_t n = settings.n_logprobs < kMaxTopLogprobs ? settings.n_logprobs : kMaxTopLogprobs;
  if (n > vocab) n = vocab;
  if (n == 0) return;
  out->n_top = static_cast<int32_t>(n);
  find_top(x, vocab, static_cast<int>(n), out->top_ids);
  for (int64_t i = 0; i < n; ++i) {
    out->top_logprobs[i] = log_probability(x[out->top_ids[i]], log_sum);
  }
}

void sample_row(const SamplingRow& settings, const float* x, int64_t vocab, Memory& m,
                SampledToken* out) {
  *out = SampledToken{};
  out->non_finite = !all_finite(x, vocab);
  if (out->non_finite) return;
  if (settings.forced_id >= 0) {
    HS_CHECK(settings.forced_id < vocab);
    out->id = settings.forced_id;
  } else {
    const float* allowed = allowed_logits(settings, x, vocab, m.allowed);
    out->id = settings.temperature > 0 ? draw(settings, allowed, vocab, m)
                                       : first_equal(allowed, vocab, largest_of(allowed, vocab));
  }
  if (settings.n_logprobs >= 0) add_logprobs(settings, x, vocab, out);
}

}  // namespace

void sample_cpu(const SampleParams& params, Team& team) {
  HS_CHECK(params.n_rows == 0 || params.vocab > 0);
  Memory measured;
  const size_t bytes = lay_out(measured, nullptr, params.vocab);
  team.run(params.n_rows, [&](int64_t r, int worker) {
    Memory m;
    lay_out(m, team.scratch(worker, bytes), params.vocab);
    sample_row(params.rows[r], params.logits + r * params.logits_stride, params.vocab, m,
               &params.out[r]);
  });
}

}  // namespace hs::HS_ISA_NS
