// A request on the engine's side: what the scheduler has no use for. Tensors, sampling, output,
// times, the sink.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/choice_output.h"
#include "engine/engine.h"
#include "engine/step_builder.h"
#include "engine/token_counts.h"

namespace hs {

struct ActiveRequest {
  // Takes the request apart. `max_tokens` as clamped by the scheduler.
  ActiveRequest(RequestId request_id, GenerateRequest request,
                std::shared_ptr<RequestSink> its_sink, const Tokenizer& tokenizer,
                const ModelSpec& spec, int32_t max_tokens, int64_t now_us);
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

  void work_started(int64_t now_us);     // the first order that concerns it
  void prefill_started(int64_t now_us);  // the first step with tokens of it
  void token_came(int64_t now_us);
  RequestTimings final_timings(int64_t now_us) const;
  RequestUsage usage() const;
  void scored(int32_t prompt_index, const SampledToken& token);  // of the token at that place
  bool complete() const { return n_unfinished == 0; }

  RequestId id;
  std::shared_ptr<RequestSink> sink;
  std::vector<int32_t> positions;  // (n_axes, n_prompt)
  std::vector<std::shared_ptr<const ImagePatches>> images;
  std::vector<SequenceTokenCounts> token_counts;  // of each choice; empty without penalties
  StepInputs inputs;
  OutputRules rules;
  TokenRules token_rules;
  std::optional<RequestGrammar> grammar;
  std::vector<TokenLogprob> prompt_logprobs;  // (n_prompt - 1), as far as they have come
  bool only_prompt;
  std::vector<ChoiceOutput> choices;
  int32_t n_unfinished;
  int32_t n_prompt;
  int32_t n_image_tokens = 0;
  int32_t n_cached_tokens = 0;
  RequestTimings timings;  // stage sums so far; -1 = not yet

 private:
  int64_t submitted_us_;
  int64_t prefill_us_ = -1;  // when, on the clock
  int64_t first_token_us_ = -1;
  int64_t last_token_us_ = -1;
};

}  // namespace hs
