// Rows of logits with their settings, for the tests of sampling.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/philox.h"
#include "kernels/sampling.h"

namespace hs::test {

struct Batch {
  int64_t vocab, stride;
  std::vector<float> logits;
  std::vector<SamplingRow> rows;

  explicit Batch(int64_t n_vocab, int64_t padding = 0)
      : vocab(n_vocab), stride(n_vocab + padding) {}
  void add(const std::vector<float>& x, const SamplingRow& row) {
    logits.insert(logits.end(), x.begin(), x.end());
    logits.resize(logits.size() + static_cast<size_t>(stride) - x.size(),
                  1e9F);  // never to be sampled
    rows.push_back(row);
  }
  std::vector<SampledToken> sample(Team& team) const {
    std::vector<SampledToken> out(rows.size());
    sample_cpu(
        {logits.data(), rows.data(), out.data(), static_cast<int64_t>(rows.size()), vocab, stride},
        team);
    return out;
  }
  const float* row(size_t r) const { return logits.data() + static_cast<int64_t>(r) * stride; }
};

inline SampledToken sample_one(const std::vector<float>& x, const SamplingRow& row, Team& team) {
  Batch batch(static_cast<int64_t>(x.size()));
  batch.add(x, row);
  return batch.sample(team)[0];
}

inline double log_softmax(const float* x, int64_t n, int64_t id) {
  const double top = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
  return x[id] - top - std::log(sum);
}

inline double uniform(const SamplingRow& s) {
  const PhiloxBlock b = philox4x32({{s.position, s.choice, 0, 0}}, s.seed);
  return std::ldexp(static_cast<double>(b.word[0] | (uint64_t{b.word[1]} << 32)), -64);
}

// Sorts everything, as the definition reads. top_p, min_p and u may be moved a little, to see
// whether the answer hangs on rounding.
inline int32_t reference(const float* x, int64_t vocab, const SamplingRow& s, double nudge = 0,
                         double u_nudge = 0) {
  std::vector<int32_t> order(static_cast<size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [x](int32_t a, int32_t b) { return x[a] > x[b]; });
  if (!(s.temperature > 0)) return order[0];
  std::vector<double> weight(order.size());
  for (int64_t i = 0; i < vocab; ++i) {
    weight[static_cast<size_t>(i)] = std::exp((double{x[i]} - x[order[0]]) / s.temperature);
  }
  const auto weight_of = [&](int32_t id) { return weight[static_cast<size_t>(id)]; };
  size_t kept = order.size();
  if (s.top_k > 0) kept = std::min(kept, static_cast<size_t>(s.top_k));
  double total = 0;
  for (size_t i = 0; i < kept; ++i) total += weight_of(order[i]);
  if (s.top_p < 1) {
    double sum = 0;
    size_t n = 0;
    while (n < kept && (n == 0 || sum < total * (s.top_p + nudge))) sum += weight_of(order[n++]);
    kept = n;
  }
  std::vector<int32_t> ids;
  total = 0;
  for (size_t i = 0; i < kept; ++i) {
    if (weight_of(order[i]) < s.min_p * (1 + nudge)) break;
    ids.push_back(order[i]);
    total += weight_of(order[i]);
  }
  std::sort(ids.begin(), ids.end());
  double at = (uniform(s) + u_nudge) * total;
  for (int32_t id : ids) {
    at -= weight_of(id);
    if (at < 0) return id;
  }
  return ids.back();
}

inline bool is_reference_but_for_rounding(int32_t id, const float* x, int64_t vocab,
                                          const SamplingRow& s) {
  for (double nudge : {-1e-6, 0.0, 1e-6}) {
    for (double u_nudge : {-3e-6, 0.0, 3e-6}) {
      if (reference(x, vocab, s, nudge, u_nudge) == id) return true;
    }
  }
  return false;
}

}  // namespace hs::test
