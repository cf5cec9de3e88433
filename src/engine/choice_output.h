// From the tokens of one choice to what its client gets: text that is certain, log-probabilities
// beside the text they belong to, and the decision that the choice is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "kernels/sampling.h"
#include "text/detokenizer.h"

namespace hs {

// When a choice ends and what it shows; the same for all choices of a request.
struct OutputRules {
  std::vector<int32_t> stop_ids;  // end tokens (unless ignored) and the client's own, sorted
  std::vector<std::string> stops;
  int32_t max_tokens = 1;
  int32_t n_logprobs = -1;
  bool skip_special_tokens = true;
  bool continues_text = false;
  bool include_stop = false;
  int32_t min_tokens = 0;
};

TokenLogprob to_logprob(const SampledToken& token);

class ChoiceOutput {
 public:
  struct Delta {
    std::string text;
    std::vector<TokenLogprob> logprobs;
    std::optional<FinishReason> finish;
    std::string stop;  // the stop string, if one ended the choice
    bool empty() const { return text.empty() && logprobs.empty() && !finish; }
  };

  // `tokenizer` and `rules` must outlive this.
  ChoiceOutput(const Tokenizer& tokenizer, const OutputRules& rules);
  // REQUIRES: not finished. A token that ends the choice by its id gives no text and no
  // log-probability.
  Delta push(const SampledToken& token);
  // Ends a choice that nothing may follow. REQUIRES: not finished.
  Delta end();
  int32_t n_tokens() const { return n_tokens_; }
  bool finished() const { return finished_; }

 private:
  // A token whose log-probability has not been sent: [begin, end) are its bytes in the text of the
  // choice.
  struct Pending {
    TokenLogprob logprob;
    size_t begin = 0;
    size_t end = 0;
  };

  void remember(const SampledToken& token);
  void take_text(std::string_view text, Delta& delta);
  void finish(FinishReason reason, Delta& delta);
  void take_logprobs(size_t n, Delta& delta);

  const OutputRules* rules_;
  Detokenizer detokenizer_;
  StopMatcher matcher_;
  int32_t n_tokens_ = 0;
  bool finished_ = false;
  size_t n_produced_ = 0;  // bytes that left the detokenizer
  size_t n_sent_ = 0;      // bytes that left the stop matcher
  std::vector<Pending> pending_;
  size_t n_open_ = 0;  // last ones of pending_, whose bytes the detokenizer still holds
};

}  // namespace hs
