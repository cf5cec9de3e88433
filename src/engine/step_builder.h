// Turns a step order into the packed arrays that the language model runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "engine/embedding_memory.h"
#include "engine/request_grammar.h"
#include "engine/scheduler.h"
#include "engine/token_counts.h"
#include "engine/token_rules.h"
#include "model/model.h"

namespace hs {

// What the step needs of a request beyond what the scheduler knows.
struct StepInputs {
  const std::vector<int32_t>* positions = nullptr;  // (n_axes, n_prompt)
  int32_t position_delta = 0;
  SamplingRow sampling;  // choice, position and counts are filled in here
  std::vector<SequenceTokenCounts>* token_counts = nullptr;  // of each choice; null: no penalties
  const RequestGrammar* grammar = nullptr;                   // null: none
  const TokenRules* rules = nullptr;                         // null: none
  int32_t n_prompt_logprobs = -1;                            // as GenerateRequest's
};

// What StepOrder::Item::n_scored has to be.
int32_t n_scored(const StepOrder::Item& item, const StepInputs& inputs);

class StepBuilder {
 public:
  // `slots` and `embeddings` (null without pictures) must outlive this.
  StepBuilder(int32_t block_size, int32_t n_position_axes, const EmbeddingSlots& slots,
              const EmbeddingMemory* embeddings)
      : block_size_(block_size), n_axes_(n_position_axes), slots_(slots), embeddings_(embeddings) {}

  // `inputs` finds a request's StepInputs. Every vector of `step` is filled anew and keeps its
  // memory.
  void build(const StepOrder& order, FunctionRef<const StepInputs&(RequestId)> inputs,
             LanguageStep& step) const;

 private:
  void add_tokens(const StepOrder::Item& item, const StepInputs& inputs, int32_t n_step_tokens,
                  LanguageStep& step) const;
  void add_image_rows(const StepOrder::Item& item, LanguageStep& step) const;
  static void add_sampling(const Sequence& sequence, const StepInputs& inputs, LanguageStep& step);
  static void add_scored_rows(const StepOrder::Item& item, const StepInputs& inputs, int32_t row,
                              LanguageStep& step);
  static void add_allowed(std::span<const uint32_t> words, SamplingRow& row, LanguageStep& step);
  static void add_rules(const TokenRules& rules, const Sequence& sequence, SamplingRow& row,
                        LanguageStep& step);
  static void link_sampling(LanguageStep& step);
  void add_block_table(const Sequence& sequence, LanguageStep& step) const;

  int32_t block_size_;
  int32_t n_axes_;
  const EmbeddingSlots& slots_;
  const EmbeddingMemory* embeddings_;
};

}  // namespace hs
