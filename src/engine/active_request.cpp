#include "engine/active_request.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hs {
namespace {

OutputRules output_rules(GenerateRequest& request, std::span<const int32_t> eos_ids,
                         int32_t max_tokens) {
  OutputRules rules{.stop_ids = std::move(request.stop_token_ids),
                    .stops = std::move(request.stops),
                    .max_tokens = max_tokens,
                    .n_logprobs = request.n_logprobs,
                    .skip_special_tokens = request.skip_special_tokens,
                    .continues_text = request.continues_text,
                    .include_stop = request.include_stop,
                    .min_tokens = request.min_tokens};
  // An ignored end token is a token like any other: it is sampled, counted and shown if special
  // tokens are.
  if (!request.ignore_eos) {
    rules.stop_ids.insert(rules.stop_ids.end(), eos_ids.begin(), eos_ids.end());
  }
  std::ranges::sort(rules.stop_ids);
  return rules;
}

SamplingRow sampling_row(const GenerateRequest& request) {
  return {.temperature = request.temperature,
          .top_p = request.top_p,
          .min_p = request.min_p,
          .top_k = request.top_k,
          .seed = request.seed,
          .n_logprobs = std::min(request.n_logprobs, kMaxTopLogprobs),
          .repetition_penalty = request.repetition_penalty,
          .frequency_penalty = request.frequency_penalty,
          .presence_penalty = request.presence_penalty};
}

TokenRules token_rules_of(GenerateRequest& request, const OutputRules& output,
                          const ModelSpec& spec) {
  TokenRules rules{.biases = std::move(request.logit_bias),
                   .allowed = {},
                   .end_ids = {},
                   .min_tokens = request.min_tokens,
                   .bad_words = std::move(request.bad_words)};
  if (rules.min_tokens > 0) {
    rules.end_ids = output.stop_ids;
    rules.end_ids.insert(rules.end_ids.end(), spec.eos_ids.begin(), spec.eos_ids.end());
  }
  if (!request.allowed_token_ids.empty()) rules.allow(request.allowed_token_ids, spec.vocab_size);
  return rules;
}

bool has_penalty(const SamplingRow& row) {
  return row.repetition_penalty != 1 || row.frequency_penalty != 0 || row.presence_penalty != 0;
}

}  // namespace

ActiveRequest::ActiveRequest(RequestId request_id, GenerateRequest request,
                             std::shared_ptr<RequestSink> its_sink, const Tokenizer& tokenizer,
                             const ModelSpec& spec, int32_t max_tokens, int64_t now_us)
    : id(request_id),
      sink(std::move(its_sink)),
      positions(std::move(request.prompt.positions)),
      images(std::move(request.prompt.images)),
      inputs{.positions = &positions,
             .position_delta = request.prompt.position_delta,
             .sampling = sampling_row(request)},
      rules(output_rules(request, spec.eos_ids, max_tokens)),
      token_rules(token_rules_of(request, rules, spec)),
      only_prompt(request.only_prompt),
      n_unfinished(request.n_choices),
      n_prompt(static_cast<int32_t>(request.prompt.token_ids.size())),
      submitted_us_(now_us) {
  for (const ImageSpan& span : request.prompt.spans) n_image_tokens += span.count;
  choices.reserve(static_cast<size_t>(request.n_choices));
  for (int32_t i = 0; i < request.n_choices; ++i) choices.emplace_back(tokenizer, rules);
  if (has_penalty(inputs.sampling)) {
    token_counts.resize(choices.size());
    inputs.token_counts = &token_counts;
  }
  if (!token_rules.empty()) inputs.rules = &token_rules;
  if (request.grammar != nullptr) {
    grammar.emplace(std::move(request.grammar), request.n_choices, token_rules.allowed);
    HS_CHECK(grammar->start().has_value());  // Engine::submit looked
    inputs.grammar = &*grammar;
  }
  if (request.n_prompt_logprobs < 0) return;
  inputs.n_prompt_logprobs = std::min(request.n_prompt_logprobs, kMaxTopLogprobs);
  prompt_logprobs.resize(static_cast<size_t>(n_prompt - 1));
}

void ActiveRequest::scored(int32_t prompt_index, const SampledToken& token) {
  prompt_logprobs[static_cast<size_t>(prompt_index - 1)] = to_logprob(token);
}

void ActiveRequest::work_started(int64_t now_us) {
  if (timings.queue_us < 0) timings.queue_us = now_us - submitted_us_;
}

void ActiveRequest::prefill_started(int64_t now_us) {
  work_started(now_us);
  if (prefill_us_ < 0) prefill_us_ = now_us;
}

void ActiveRequest::token_came(int64_t now_us) {
  last_token_us_ = now_us;
  if (first_token_us_ >= 0) return;
  first_token_us_ = now_us;
  timings.first_token_us = now_us - submitted_us_;
  timings.prefill_us = now_us - prefill_us_;
}

RequestTimings ActiveRequest::final_timings(int64_t now_us) const {
  RequestTimings result = timings;
  if (first_token_us_ >= 0) result.decode_us = last_token_us_ - first_token_us_;
  result.total_us = now_us - submitted_us_;
  return result;
}

RequestUsage ActiveRequest::usage() const {
  RequestUsage result{
      .prompt_tokens = n_prompt, .image_tokens = n_image_tokens, .cached_tokens = n_cached_tokens};
  for (const ChoiceOutput& choice : choices) result.completion_tokens += choice.n_tokens();
  return result;
}

}  // namespace hs
