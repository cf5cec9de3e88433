// One block samples one row. It passes over the logits a few times; they stay in the L2 cache.
#include <cmath>

#include "kernels/philox.h"
#include "kernels/sampling_cuda.h"
#include "kernels/sampling_cut.cuh"
#include "kernels/sampling_weights.cuh"
#include "kernels/vector.cuh"

namespace hs::cuda {
namespace {

// The first token in the order of logits, of those after `below` (all: ~0).
HS_DEVICE_CALL uint64_t find_top(const WeightedRow& row, uint64_t below, SampleShared& s) {
  uint64_t top = 0;
  for_my_tokens(row, [&](float x, int64_t id) {
    const uint64_t order = order_of(x, id);
    if (order < below && order > top) top = order;
  });
  return reduce_row<Max>(top, 0, s);
}

HS_DEVICE_CALL bool all_finite(const WeightedRow& row, SampleShared& s) {
  uint64_t bad = 0;
  for_my_tokens(row, [&](float x, int64_t) {
    if ((float_bits(x) & 0x7F800000U) == 0x7F800000U) bad = 1;
  });
  return reduce_row<Max>(bad, 0, s) == 0;
}

// As the CPU's: finite logits stay finite, whatever the penalty.
HS_DEVICE float penalised(float logit, const TokenCount& token, const SamplingRow& settings) {
  float value = logit > 0 ? logit / settings.repetition_penalty
                          : mul_exact(logit, settings.repetition_penalty);
  const auto n = static_cast<float>(token.n_output);
  value = add_exact(value, -mul_exact(settings.frequency_penalty, n));
  if (token.n_output > 0) value = add_exact(value, -settings.presence_penalty);
  constexpr float kMost = 3.402823466e+38F;
  return value > kMost ? kMost : value < -kMost ? -kMost : value;
}

// The logits after penalties and biases.
HS_DEVICE_CALL void copy_adjusted(const SamplingRow& settings, const WeightedRow& row,
                                  float* copy) {
  for_my_tokens(row, [&](float x, int64_t id) { copy[id] = x; });
  __syncthreads();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < settings.n_counts; i += kSampleThreads) {
    const TokenCount token = settings.counts[i];
    if (token.id < 0 || token.id >= row.n) continue;
    copy[token.id] = penalised(row.x[token.id], token, settings);
  }
  __syncthreads();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < settings.n_biases; i += kSampleThreads) {
    const TokenBias token = settings.biases[i];
    if (token.id >= 0 && token.id < row.n) copy[token.id] = add_exact(copy[token.id], token.bias);
  }
  __syncthreads();
}

// Ids without a set bit can no longer be sampled. Each thread writes the ids that it reads below.
HS_DEVICE_CALL void apply_mask(const SamplingRow& settings, const WeightedRow& row, float* copy) {
  if (settings.allowed == nullptr) return;
  for_my_tokens(row, [&](float, int64_t id) {
    if ((settings.allowed[id / 32] >> (id % 32) & 1U) == 0) copy[id] = -INFINITY;
  });
  __syncthreads();
}

HS_DEVICE_CALL bool anything_left(const WeightedRow& row, SampleShared& s) {
  uint64_t any = 0;
  for_my_tokens(row, [&](float x, int64_t) {
    if (x > -INFINITY) any = 1;
  });
  return reduce_row<Max>(any, 0, s) != 0;
}

// The logits after penalties and biases, of allowed ids; without the banned ids unless nothing
// would be left.
HS_DEVICE_CALL WeightedRow allowed_logits(const SamplingRow& settings, const WeightedRow& row,
                                          float* copy, SampleShared& s) {
  const int32_t n_banned = settings.ban_eos ? settings.n_banned : 0;
  const bool masked = settings.allowed != nullptr;
  if (settings.n_counts == 0 && settings.n_biases == 0 && n_banned == 0 && !masked) return row;
  copy_adjusted(settings, row, copy);
  apply_mask(settings, row, copy);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < n_banned; i += kSampleThreads) {
    const int32_t id = settings.banned_ids[i];
    if (id >= 0 && id < row.n) copy[id] = -INFINITY;
  }
  __syncthreads();
  WeightedRow allowed = row;
  allowed.x = copy;
  if (n_banned > 0 && !anything_left(allowed, s)) {
    copy_adjusted(settings, row, copy);
    apply_mask(settings, row, copy);
  }
  if (masked && !anything_left(allowed, s)) copy_adjusted(settings, row, copy);
  return allowed;
}

// 2^30 times a share of at least 0, rounded up; all tokens reach at most 2^30.
HS_DEVICE uint32_t weight_of_share(float share) {
  const double weight = static_cast<double>(share) * static_cast<double>(kTopWeight);
  if (!(weight > 0)) return 0;
  if (weight >= static_cast<double>(kTopWeight)) return static_cast<uint32_t>(kTopWeight);
  return static_cast<uint32_t>(ceil(weight));
}

// The order from which on tokens may be drawn, after top_k and top_p.
HS_DEVICE_CALL uint64_t find_cuts(const SamplingRow& settings, const WeightedRow& row,
                                  SampleShared& s) {
  const bool by_count = settings.top_k > 0 && settings.top_k < row.n;
  const bool by_weight = settings.top_p < 1;
  Cut cut{0, 0};
  if (!by_count && !by_weight) return cut.order;
  uint64_t count = 0;
  for_my_tokens(row, [&](float x, int64_t) {
    const uint32_t weight = weight_of(row, x);
    count += weight != 0 ? 1 : 0;
    cut.weight += weight;
  });
  count = reduce_row<Sum>(count, 0, s);
  cut.weight = reduce_row<Sum>(cut.weight, 0, s);
  const auto k = static_cast<uint64_t>(settings.top_k);
  if (by_count && k < count) cut = find_cut(row, s, false, k);
  if (by_weight) {
    const double share = settings.top_p > 0 ? static_cast<double>(settings.top_p) : 0;
    auto wanted = static_cast<uint64_t>(ceil(share * static_cast<double>(cut.weight)));
    if (wanted < 1) wanted = 1;
    if (wanted < cut.weight) cut = find_cut(row, s, true, wanted);
  }
  return cut.order;
}

// Tokens that may be drawn: their own weight, 0 for others.
struct Filter {
  uint64_t first;  // order
  uint32_t weight_min;
};
HS_DEVICE uint32_t drawn_weight(const WeightedRow& row, const Filter& filter, int64_t id) {
  const uint32_t weight = weight_of(row, row.x[id]);
  return weight >= filter.weight_min && order_of(row.x[id], id) >= filter.first ? weight : 0;
}

// A run of ids, and the place in its weights that is looked for.
struct Part {
  int64_t begin;
  int64_t end;
  uint64_t at;
};

// Which of the run's parts, one a warp, `at` lies in. With choose(total) the place is chosen first.
template <typename Choose>
HS_DEVICE Part find_part(const WeightedRow& row, const Filter& filter, Part part, SampleShared& s,
                         const Choose& choose) {
  constexpr int kWarps = kSampleThreads / kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t length = (part.end - part.begin + kWarps - 1) / kWarps;
  const auto end_of = [&](int w) {
    const int64_t end = part.begin + (w + 1) * length;
    return end < part.end ? end : part.end;
  };
  uint64_t weight = 0;
  for (int64_t i = part.begin + warp * length + lane; i < end_of(warp); i += kWarp) {
    weight += drawn_weight(row, filter, i);
  }
  weight = reduce_lanes<Sum>(weight);
  if (lane == 0) s.area[warp] = weight;
  __syncthreads();
  part.at = choose(reduce_lanes<Sum>(s.area[lane]));
  int w = 0;
  while (part.at >= s.area[w]) part.at -= s.area[w++];
  __syncthreads();
  return {part.begin + w * length, end_of(w), part.at};
}

// The token of a run in whose weight `at` lies; every warp finds it.
HS_DEVICE_CALL int32_t token_at(const WeightedRow& row, const Filter& filter, Part part) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t first = part.begin;; first += kWarp) {
    const int64_t id = first + lane;
    const uint64_t weight = id < part.end ? drawn_weight(row, filter, id) : 0;
    uint64_t sum = weight;
    HS_UNROLL
    for (unsigned apart = 1; apart < kWarp; apart *= 2) {
      const uint64_t before = __shfl_up_sync(kAllLanes, sum, apart);
      if (lane >= static_cast<int>(apart)) sum += before;
    }
    const unsigned here = __ballot_sync(kAllLanes, part.at < sum);
    if (here != 0) return static_cast<int32_t>(first + __ffs(static_cast<int>(here)) - 1);
    part.at -= __shfl_sync(kAllLanes, sum, kWarp - 1);
  }
}

HS_DEVICE_CALL int32_t draw(const SamplingRow& settings, WeightedRow row, SampleShared& s) {
  constexpr float kInverseMax = 1e37F;  // a temperature next to 0 leaves the top tokens alone
  row.inverse_temperature = 1.0F / settings.temperature;
  if (!(row.inverse_temperature < kInverseMax)) row.inverse_temperature = kInverseMax;
  const Filter filter{find_cuts(settings, row, s), weight_of_share(settings.min_p)};
  const PhiloxBlock random =
      philox4x32({{settings.position, settings.choice, 0, 0}}, settings.seed);
  const uint64_t u = random.word[0] | (uint64_t{random.word[1]} << 32);
  Part part =
      find_part(row, filter, {0, row.n, 0}, s, [&](uint64_t total) { return mul_high(u, total); });
  part = find_part(row, filter, part, s, [&](uint64_t) { return part.at; });
  return token_at(row, filter, part);
}

HS_DEVICE float log_probability(float x, double log_sum) {
  const double value = static_cast<double>(x) - log_sum;
  return value < -9999.0 ? -9999.0F : static_cast<float>(value);
}

HS_DEVICE_CALL void add_logprobs(const SamplingRow& settings, const WeightedRow& row, int32_t id,
                                 SampleShared& s, SampledToken* out) {
  float sum = 0;  // of at most a thousandth of the terms
  for_my_tokens(row, [&](float x, int64_t) { sum += exp_exact(add_exact(x, -row.largest)); });
  const double total =
      reduce_block<Sum>(static_cast<double>(sum), 0.0, reinterpret_cast<double*>(s.area2));
  const double log_sum = static_cast<double>(row.largest) + log(total);
  int64_t n = settings.n_logprobs < kMaxTopLogprobs ? settings.n_logprobs : kMaxTopLogprobs;
  if (n > row.n) n = row.n;
  if (threadIdx.x == 0) {
    out->logprob = log_probability(row.x[id], log_sum);
    out->n_top = static_cast<int32_t>(n);
  }
  uint64_t below = ~uint64_t{0};
  for (int64_t i = 0; i < n; ++i) {
    below = find_top(row, below, s);
    if (threadIdx.x != 0) continue;
    out->top_ids[i] = id_of(below);
    out->top_logprobs[i] = log_probability(row.x[id_of(below)], log_sum);
  }
}

__global__ void __launch_bounds__(kSampleThreads) sample_kernel(SampleParams p) {
  auto& s = *shared_as<SampleShared>();
  const int64_t r = blockIdx.x;
  const SamplingRow settings = p.rows[r];
  SampledToken* const out = p.out + r;
  if (threadIdx.x == 0) *out = SampledToken{};
  WeightedRow row{p.logits + r * p.logits_stride, p.vocab, 0, 1};
  if (!all_finite(row, s)) {
    if (threadIdx.x == 0) out->non_finite = true;
    return;
  }
  int32_t id = settings.forced_id;
  if (id < 0) {
    WeightedRow allowed = allowed_logits(settings, row, p.workspace + r * p.vocab, s);
    const int32_t top = id_of(find_top(allowed, ~uint64_t{0}, s));
    allowed.largest = allowed.x[top];
    id = settings.temperature > 0 ? draw(settings, allowed, s) : top;
  }
  if (threadIdx.x == 0) out->id = id;
  if (settings.n_logprobs < 0) return;
  row.largest = row.x[id_of(find_top(row, ~uint64_t{0}, s))];
  add_logprobs(settings, row, id, s, out);
}

}  // namespace

size_t sample_workspace_bytes(int64_t n_rows, int64_t vocab) {
  return static_cast<size_t>(n_rows) * static_cast<size_t>(vocab) * sizeof(float);
}

cudaError_t sample(const SampleParams& p, cudaStream_t stream) {
  if (p.n_rows < 0 || p.n_rows > INT32_MAX || p.vocab <= 0 || p.vocab > INT32_MAX ||
      p.logits_stride < p.vocab || (p.n_rows > 0 && p.workspace == nullptr)) {
    return cudaErrorInvalidValue;
  }
  if (p.n_rows == 0) return cudaSuccess;
  return launch(sample_kernel, dim3(static_cast<unsigned>(p.n_rows)), kSampleThreads,
                sizeof(SampleShared), stream, p);
}

}  // namespace hs::cuda
