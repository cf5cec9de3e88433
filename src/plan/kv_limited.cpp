#include "plan/kv_limited.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "base/check.h"
#include "plan/arrivals.h"

namespace hs {
namespace {

// A request as far as blocks and steps are concerned.
struct Holder {
  int32_t n_prompt = 0;
  int32_t wanted = 0;   // outputs
  int32_t n_known = 0;  // tokens: the prompt and the outputs so far
  int32_t n_run = 0;    // of those, in the cache
  int32_t n_blocks = 0;
  int32_t n_step = 0;  // tokens of the step that is being made

  bool decodes() const { return n_run + 1 == n_known && n_run >= n_prompt; }
};

class Recursion {
 public:
  Recursion(const DeviceModel& device, const Workload& workload, const ServingLimits& limits,
            LanguagePart part, int64_t n_blocks)
      : device_(device),
        workload_(workload),
        limits_(limits),
        decode_only_(part == LanguagePart::kDecode),
        n_free_(n_blocks) {}

  LanguageTime run() {
    constexpr int64_t kWarmup = 300;
    constexpr int64_t kRequests = 1500;
    LanguageTime time{.fits = true, .us = 0, .batch = 0, .step_us = 0, .kv_tokens = 0};
    double us = 0;
    int64_t n_steps = 0;
    int64_t n_before = 0;  // requests done while the cache filled
    while (n_done_ < kWarmup + kRequests) {
      const double step_us = step();
      if (n_done_ < kWarmup) {
        n_before = n_done_;
        continue;
      }
      us += step_us;
      time.batch += static_cast<double>(running_.size());
      ++n_steps;
    }
    time.us = us / static_cast<double>(n_done_ - n_before);
    time.batch /= static_cast<double>(n_steps);
    time.step_us = us / static_cast<double>(n_steps);
    return time;
  }

 private:
  int32_t blocks_for(int32_t n_tokens) const {
    return (n_tokens + limits_.block_size - 1) / limits_.block_size;
  }
  bool has_room() const {
    return n_tokens_ < limits_.max_num_batched_tokens && n_parts_ < limits_.max_num_seqs;
  }

  double step() {
    n_tokens_ = 0;
    n_parts_ = 0;
    for (Holder& one : running_) one.n_step = 0;
    for (size_t i = 0; i < running_.size() && has_room(); ++i) {
      if (running_[i].decodes() && grow(i, running_[i].n_known)) plan(running_[i], 1);
    }
    for (size_t i = 0; i < running_.size() && has_room(); ++i) {
      if (!running_[i].decodes()) prefill(i);
    }
    admit();
    return finish_step();
  }

  void plan(Holder& one, int32_t n_tokens) {
    one.n_step = n_tokens;
    n_tokens_ += n_tokens;
    ++n_parts_;
  }

  void prefill(size_t index) {
    const Holder& one = running_[index];
    int32_t end = std::min(one.n_known, one.n_run + limits_.max_num_batched_tokens - n_tokens_);
    if (!grow(index, end)) end = std::min(end, running_[index].n_blocks * limits_.block_size);
    if (end > running_[index].n_run) plan(running_[index], end - running_[index].n_run);
  }

  // At the cost of the youngest.
  bool grow(size_t index, int32_t n_tokens) {
    while (running_[index].n_blocks < blocks_for(n_tokens)) {
      if (n_free_ > 0) {
        --n_free_;
        ++running_[index].n_blocks;
        continue;
      }
      if (index + 1 == running_.size()) return false;
      Holder victim = running_.back();
      running_.pop_back();
      if (victim.n_step > 0) {
        n_tokens_ -= victim.n_step;
        --n_parts_;
      }
      n_free_ += victim.n_blocks;
      victim.n_blocks = victim.n_run = victim.n_step = 0;
      waiting_.push_front(victim);
    }
    return true;
  }

  // Tokens that wait must fit beside what the running ones need, and a block for each to grow into.
  void admit() {
    while (has_room() && running_.size() < static_cast<size_t>(limits_.max_num_seqs)) {
      if (waiting_.empty()) waiting_.push_back(next_request());
      int64_t promised = 0;
      for (const Holder& one : running_) {
        promised += std::max(0, blocks_for(one.n_known) - one.n_blocks) + 1;
      }
      Holder& next = waiting_.front();
      if (!running_.empty() && blocks_for(next.n_known) > n_free_ - promised) return;
      running_.push_back(next);
      waiting_.pop_front();
      // Keys and values of a prompt that another device has run come as a copy.
      Holder& one = running_.back();
      if (decode_only_ && one.n_known == one.n_prompt + 1) {
        one.n_blocks = blocks_for(one.n_known);
        n_free_ -= one.n_blocks;
        one.n_run = one.n_prompt;
        plan(one, 1);
        continue;
      }
      prefill(running_.size() - 1);
    }
  }

  Holder next_request() {
    const auto& shape = workload_.requests[random_.below(workload_.requests.size())];
    Holder one;
    one.n_prompt = shape.n_prompt();
    one.n_known = one.n_prompt + (decode_only_ ? 1 : 0);
    one.wanted = shape.output_tokens;
    return one;
  }

  double finish_step() {
    double attention_us = 0;
    double n_sampled = 0;
    for (Holder& one : running_) {
      if (one.n_step == 0) continue;
      attention_us += device_.attention_us({.first = one.n_run, .count = one.n_step});
      one.n_run += one.n_step;
      if (one.n_run < one.n_known) continue;
      ++one.n_known;
      ++n_sampled;
    }
    std::erase_if(running_, [&](const Holder& one) {
      if (one.n_known - one.n_prompt < one.wanted) return false;
      n_free_ += one.n_blocks;
      ++n_done_;
      return true;
    });
    return device_.tokens_us(n_tokens_, n_sampled) + attention_us + device_.pause_us(n_sampled);
  }

  const DeviceModel& device_;
  const Workload& workload_;
  const ServingLimits& limits_;
  bool decode_only_;
  int64_t n_free_;
  std::vector<Holder> running_;  // the oldest first
  std::deque<Holder> waiting_;
  int64_t n_done_ = 0;
  int32_t n_tokens_ = 0;  // of the step
  int32_t n_parts_ = 0;
  SeededRandom random_{20260313};
};

}  // namespace

LanguageTime kv_limited_time(const DeviceModel& device, const Workload& workload,
                             const ServingLimits& limits, LanguagePart part, int64_t n_blocks) {
  HS_CHECK(part != LanguagePart::kPrefill);
  return Recursion(device, workload, limits, part, n_blocks).run();
}

}  // namespace hs
