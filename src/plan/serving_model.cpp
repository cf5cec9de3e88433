#include "plan/serving_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "plan/kv_limited.h"

namespace hs {
namespace {

// What a part of the language work is per request, averaged.
struct Demand {
  double prompt = 0;        // tokens to prefill
  double decodes = 0;       // steps with one token
  double attention_us = 0;  // over the request's life
  double resident = 0;      // tokens it holds in the cache, averaged over its life
  int64_t largest = 0;      // tokens of the longest sequence
};

Demand demand_of(const DeviceModel& device, const Workload& workload, LanguagePart part,
                 int32_t block_size) {
  Demand demand;
  double life = 0;
  for (const RequestShape& request : workload.requests) {
    const int32_t prompt = request.n_prompt();
    const double prefilled = part == LanguagePart::kDecode ? 0 : prompt;
    const double decodes = part == LanguagePart::kPrefill ? 0 : request.output_tokens - 1;
    demand.prompt += prefilled;
    demand.decodes += decodes;
    if (prefilled > 0) {
      demand.attention_us += device.attention_us({.first = 0, .count = prompt});
    }
    // Of one token it grows evenly with the context.
    const double last =
        device.attention_us({.first = prompt + request.output_tokens - 2, .count = 1});
    const double first = device.attention_us({.first = prompt, .count = 1});
    demand.attention_us += decodes * (first + last) / 2;
    const double steps = 1 + decodes;
    demand.resident += steps * (prompt + decodes / 2 + 1.5 * block_size);
    life += steps;
    demand.largest = std::max<int64_t>(demand.largest, prompt + request.output_tokens);
  }
  const auto n = static_cast<double>(workload.requests.size());
  demand.prompt /= n;
  demand.decodes /= n;
  demand.attention_us /= n;
  demand.resident /= life;
  return demand;
}

// Prompts that come at random, `rate` a step on average, are run in chunks of what a step has room
// for. How full steps are with prefill, as shares of all steps, and how many prompts wait or run.
class PromptQueue {
 public:
  static constexpr int32_t kPieces = 4;  // of a prompt

  // room: prompts that fit in a step. n_max: most prompts that can wait.
  PromptQueue(double rate, double room, int32_t n_max) {
    const auto n_states = static_cast<size_t>(kPieces * n_max + 1);
    const auto served = static_cast<size_t>(std::max(1L, std::lround(room * kPieces)));
    std::vector<double> arriving;  // Poisson; the last one stands for all that are more
    double p = std::exp(-rate);
    double left = 1;
    for (int32_t k = 0; k < n_max && left > 1e-9; ++k) {
      arriving.push_back(p);
      left -= p;
      p *= rate / (k + 1);
    }
    arriving.push_back(std::max(left, 0.0));
    std::vector<double> before(n_states, 0);
    before[0] = 1;
    steps_.assign(n_states, 0);
    for (int32_t round = 0; round < kRounds; ++round) {
      std::ranges::fill(steps_, 0);
      for (size_t state = 0; state < n_states; ++state) {
        if (before[state] < 1e-12) continue;
        for (size_t k = 0; k < arriving.size(); ++k) {
          steps_[std::min(state + k * kPieces, n_states - 1)] += before[state] * arriving[k];
        }
      }
      std::ranges::fill(before, 0);
      for (size_t state = 0; state < n_states; ++state) {
        before[state > served ? state - served : 0] += steps_[state];
      }
    }
    served_ = served;
  }

  double mean_waiting() const {
    double mean = 0;
    for (size_t state = 0; state < steps_.size(); ++state) {
      mean += steps_[state] * static_cast<double>(state);
    }
    return mean / kPieces;
  }
  // Mean over steps of f(prompts that are run).
  template <typename F>
  double mean_of(F&& f) const {
    double mean = 0;
    for (size_t state = 0; state < steps_.size(); ++state) {
      if (steps_[state] <= 0) continue;
      mean += steps_[state] * f(static_cast<double>(std::min(state, served_)) / kPieces);
    }
    return mean;
  }

 private:
  static constexpr int32_t kRounds = 80;
  std::vector<double> steps_;  // share of steps that begin with so many pieces
  size_t served_ = 1;
};

// Sequences come and go: each is `decodes` steps plus those of its prompt in the batch.
LanguageTime steady_state(const DeviceModel& device, const Demand& demand, double batch,
                          const ServingLimits& limits) {
  LanguageTime time{.fits = true, .us = 0, .batch = batch, .step_us = 0, .kv_tokens = 0};
  const double budget = limits.max_num_batched_tokens;
  double prompt_steps = demand.prompt > 0 ? 1 : 0;
  const auto n_max = static_cast<int32_t>(std::ceil(batch));
  for (int32_t round = 0;; ++round) {
    const double rate = batch / std::max(1.0, demand.decodes + prompt_steps);  // requests a step
    const double decoding = std::min(rate * demand.decodes, batch);
    if (demand.prompt <= 0) {
      time.step_us = device.tokens_us(decoding, decoding) + device.pause_us(decoding);
      time.us = time.step_us / rate + demand.attention_us;
      return time;
    }
    const double room = std::max(budget - decoding, 1.0) / demand.prompt;
    const PromptQueue queue(rate, room, n_max);
    const double done =
        std::max(queue.mean_of([](double prompts) { return prompts; }), 1e-9);  // requests a step
    constexpr int32_t kRounds = 30;
    if (round == kRounds) {
      time.step_us = queue.mean_of([&](double prompts) {
        return device.tokens_us(decoding + prompts * demand.prompt, decoding + prompts) +
               device.pause_us(decoding + prompts);
      });
      time.us = time.step_us / done + demand.attention_us;
      return time;
    }
    const double waited = std::max(1.0, queue.mean_waiting() / done);
    prompt_steps += 0.5 * (waited - prompt_steps);
  }
}

}  // namespace

double vision_us(const DeviceModel& device, const Workload& workload) {
  double us = 0;
  for (const RequestShape& request : workload.requests) {
    if (!request.image_rows.empty()) us += device.encode_us(request.image_rows);
  }
  return us / static_cast<double>(workload.requests.size());
}

LanguageTime language_time(const DeviceModel& device, const Workload& workload,
                           const ServingLimits& limits, LanguagePart part, bool tower) {
  HS_CHECK(!workload.requests.empty());
  const Demand demand = demand_of(device, workload, part, limits.block_size);
  const int64_t kv_tokens = device.kv_tokens(tower);
  LanguageTime none;
  none.us = std::numeric_limits<double>::infinity();
  none.kv_tokens = std::max<int64_t>(kv_tokens, 0);
  if (kv_tokens < demand.largest + limits.block_size) return none;
  const double room = static_cast<double>(kv_tokens) / demand.resident;
  // Somewhat above what the sequences hold on average, they still run into the end now and then.
  constexpr double kTight = 1.3;
  const bool limited = part != LanguagePart::kPrefill && room < kTight * limits.max_num_seqs;
  const double batch = std::clamp(room, 1.0, static_cast<double>(limits.max_num_seqs));
  LanguageTime time =
      limited ? kv_limited_time(device, workload, limits, part, kv_tokens / limits.block_size)
              : steady_state(device, demand, batch, limits);
  time.kv_tokens = kv_tokens;
  return time;
}

WorkloadMeans means(const Workload& workload) {
  WorkloadMeans result;
  for (const RequestShape& request : workload.requests) {
    result.prompt_tokens += request.n_prompt();
    result.image_rows += request.n_prompt() - request.text_tokens;
    result.output_tokens += request.output_tokens;
  }
  const auto n = static_cast<double>(workload.requests.size());
  result.prompt_tokens /= n;
  result.image_rows /= n;
  result.output_tokens /= n;
  return result;
}

}  // namespace hs
