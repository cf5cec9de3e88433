#include "engine/choice_output.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hs {

TokenLogprob to_logprob(const SampledToken& token) {
  TokenLogprob out{.id = token.id, .logprob = token.logprob, .top = {}};
  out.top.reserve(static_cast<size_t>(token.n_top));
  for (int32_t i = 0; i < token.n_top; ++i) {
    out.top.emplace_back(token.top_ids[i], token.top_logprobs[i]);
  }
  return out;
}

ChoiceOutput::ChoiceOutput(const Tokenizer& tokenizer, const OutputRules& rules)
    : rules_(&rules),
      detokenizer_(
          tokenizer, rules.skip_special_tokens,
          rules.continues_text ? Detokenizer::Start::kContinuation : Detokenizer::Start::kNewText),
      matcher_(rules.stops) {}

ChoiceOutput::Delta ChoiceOutput::push(const SampledToken& token) {
  HS_CHECK(!finished_);
  ++n_tokens_;
  Delta delta;
  // Before the length: an end token in the last allowed place is a stop.
  if (n_tokens_ > rules_->min_tokens && std::ranges::binary_search(rules_->stop_ids, token.id)) {
    if (rules_->include_stop) take_text(detokenizer_.push(token.id), delta);
    if (!finished_) finish(FinishReason::kStop, delta);
    return delta;
  }
  if (rules_->n_logprobs >= 0) remember(token);
  take_text(detokenizer_.push(token.id), delta);
  if (!finished_ && n_tokens_ >= rules_->max_tokens) finish(FinishReason::kLength, delta);
  return delta;
}

void ChoiceOutput::remember(const SampledToken& token) {
  pending_.push_back({.logprob = to_logprob(token), .begin = n_produced_});
  ++n_open_;
}

// Text that left the detokenizer goes through the stop matcher into the delta.
void ChoiceOutput::take_text(std::string_view text, Delta& delta) {
  if (text.empty()) return;
  n_produced_ += text.size();
  for (size_t i = pending_.size() - n_open_; i < pending_.size(); ++i)
    pending_[i].end = n_produced_;
  n_open_ = 0;

  StopMatcher::Output output;
  if (n_tokens_ < rules_->min_tokens)
    output.text = text;
  else
    output = matcher_.push(text);
  if (output.stopped && rules_->include_stop) output.text += output.stop;
  n_sent_ += output.text.size();
  delta.text += output.text;
  const auto sent = std::ranges::find_if(pending_, [&](const Pending& pending) {
    return output.stopped ? pending.begin >= n_sent_ : pending.end > n_sent_;
  });
  take_logprobs(static_cast<size_t>(sent - pending_.begin()), delta);
  if (!output.stopped) return;
  finished_ = true;
  delta.finish = FinishReason::kStop;
  delta.stop = std::move(output.stop);
}

ChoiceOutput::Delta ChoiceOutput::end() {
  HS_CHECK(!finished_);
  Delta delta;
  finish(FinishReason::kStop, delta);
  return delta;
}

void ChoiceOutput::finish(FinishReason reason, Delta& delta) {
  // The bytes that the detokenizer held back may still complete a stop string.
  take_text(detokenizer_.finish(), delta);
  if (finished_) return;
  finished_ = true;
  delta.finish = reason;
  delta.text += matcher_.finish();
  take_logprobs(pending_.size(), delta);
}

void ChoiceOutput::take_logprobs(size_t n, Delta& delta) {
  for (size_t i = 0; i < n; ++i) delta.logprobs.push_back(std::move(pending_[i].logprob));
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(n));
  n_open_ = std::min(n_open_, pending_.size());
}

}  // namespace hs
