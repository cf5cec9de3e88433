#include "engine/step_builder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hs {

int32_t n_scored(const StepOrder::Item& item, const StepInputs& inputs) {
  if (inputs.n_prompt_logprobs < 0 || item.sequence->choice != 0) return 0;
  const int32_t last = item.sequence->request->n_prompt() - 1;  // what it predicts is no prompt
  return std::max(std::min(item.first + item.count, last) - item.first, 0);
}

void StepBuilder::build(const StepOrder& order, FunctionRef<const StepInputs&(RequestId)> inputs,
                        LanguageStep& step) const {
  size_t stride = 0;
  for (const StepOrder::Item& item : order.items) {
    stride = std::max(stride, item.sequence->blocks.size());
  }
  step.token_ids.clear();
  step.positions.resize(static_cast<size_t>(n_axes_) * static_cast<size_t>(order.n_tokens));
  step.slots.clear();
  step.cu_query.assign(1, 0);
  step.context_lens.clear();
  step.block_tables.clear();
  step.block_table_stride = static_cast<int32_t>(stride);
  step.image_rows.clear();
  step.sample_rows.clear();
  step.sampling.clear();
  step.token_counts.clear();
  step.token_biases.clear();
  step.banned_ids.clear();
  step.allowed_words.clear();

  for (const StepOrder::Item& item : order.items) {
    const Sequence& sequence = *item.sequence;
    const StepInputs& request = inputs(sequence.request->id);
    add_tokens(item, request, order.n_tokens, step);
    add_image_rows(item, step);
    add_block_table(sequence, step);
    const auto end = static_cast<int32_t>(step.token_ids.size());
    step.cu_query.push_back(end);
    step.context_lens.push_back(item.first + item.count);
    add_scored_rows(item, request, end - item.count, step);
    if (!item.sample) continue;
    step.sample_rows.push_back(end - 1);
    add_sampling(sequence, request, step);
  }
  link_sampling(step);
  HS_CHECK_EQ(step.token_ids.size(), static_cast<size_t>(order.n_tokens));
}

void StepBuilder::add_tokens(const StepOrder::Item& item, const StepInputs& inputs,
                             int32_t n_step_tokens, LanguageStep& step) const {
  const Sequence& sequence = *item.sequence;
  const int32_t n_prompt = sequence.request->n_prompt();
  const auto row = static_cast<int32_t>(step.token_ids.size());
  for (int32_t i = item.first; i < item.first + item.count; ++i) {
    step.token_ids.push_back(sequence.token(i));
    const BlockId block = sequence.blocks[static_cast<size_t>(i / block_size_)];
    step.slots.push_back(int64_t{block} * block_size_ + i % block_size_);
  }
  for (int32_t axis = 0; axis < n_axes_; ++axis) {
    int32_t* out = step.positions.data() + int64_t{axis} * n_step_tokens + row;
    const int32_t* prompt = inputs.positions->data() + int64_t{axis} * n_prompt;
    for (int32_t i = item.first; i < item.first + item.count; ++i) {
      *out++ = i < n_prompt ? prompt[i] : i + inputs.position_delta;
    }
  }
}

// The chunk may hold any part of a picture.
void StepBuilder::add_image_rows(const StepOrder::Item& item, LanguageStep& step) const {
  const int32_t end = item.first + item.count;
  const auto row = static_cast<int64_t>(step.token_ids.size()) - item.count;
  for (const PromptImage& image : item.sequence->request->images) {
    if (image.end() <= item.first) continue;
    if (image.first >= end) break;
    HS_CHECK(image.slot != kNoSlot && slots_.arrived(image.slot));
    const int32_t from = std::max(image.first, item.first);
    const int32_t to = std::min(image.end(), end);
    const int64_t first_row = row + (from - item.first);
    std::fill_n(step.token_ids.begin() + first_row, to - from, -1);
    step.image_rows.push_back(
        {.first_row = first_row,
         .n_rows = to - from,
         .rows = embeddings_->rows(slots_.first_row(image.slot) + (from - image.first), to - from)
                     .data});
  }
}

void StepBuilder::add_sampling(const Sequence& sequence, const StepInputs& inputs,
                               LanguageStep& step) {
  SamplingRow row = inputs.sampling;
  row.choice = static_cast<uint32_t>(sequence.choice);
  row.position = static_cast<uint32_t>(sequence.outputs.size());
  if (inputs.token_counts != nullptr) {
    auto& counts = (*inputs.token_counts)[static_cast<size_t>(sequence.choice)];
    counts.update(sequence);
    row.n_counts = static_cast<int32_t>(counts.counts().size());
    step.token_counts.insert(step.token_counts.end(), counts.counts().begin(),
                             counts.counts().end());
  }
  if (inputs.rules != nullptr) add_rules(*inputs.rules, sequence, row, step);
  if (inputs.grammar != nullptr) {
    add_allowed(inputs.grammar->allowed(sequence.choice), row, step);
  } else if (inputs.rules != nullptr) {
    add_allowed(inputs.rules->allowed, row, step);
  }
  step.sampling.push_back(row);
}

void StepBuilder::add_rules(const TokenRules& rules, const Sequence& sequence, SamplingRow& row,
                            LanguageStep& step) {
  row.n_biases = static_cast<int32_t>(rules.biases.size());
  step.token_biases.insert(step.token_biases.end(), rules.biases.begin(), rules.biases.end());
  const size_t n_banned = step.banned_ids.size();
  rules.append_banned(sequence, step.banned_ids);
  row.n_banned = static_cast<int32_t>(step.banned_ids.size() - n_banned);
  row.ban_eos = row.n_banned > 0;
}

void StepBuilder::add_allowed(std::span<const uint32_t> words, SamplingRow& row,
                              LanguageStep& step) {
  if (words.empty()) return;
  row.allowed = words.data();
  step.allowed_words.insert(step.allowed_words.end(), words.begin(), words.end());
  step.allowed_stride = static_cast<int32_t>(words.size());
}

// The row of token i gives the log-probability of token i + 1. Placeholders of pictures are scored
// like any token; nobody is told of them.
void StepBuilder::add_scored_rows(const StepOrder::Item& item, const StepInputs& inputs,
                                  int32_t row, LanguageStep& step) {
  for (int32_t i = 0; i < item.n_scored; ++i) {
    SamplingRow scored;
    scored.forced_id = item.sequence->token(item.first + i + 1);
    scored.n_logprobs = inputs.n_prompt_logprobs;
    step.sample_rows.push_back(row + i);
    step.sampling.push_back(scored);
  }
}

// The step owns copies, because the lane reads them while requests come and go. Until all are there
// a row has only their numbers, and `allowed` points to anything but null.
void StepBuilder::link_sampling(LanguageStep& step) {
  const TokenCount* counts = step.token_counts.data();
  const TokenBias* biases = step.token_biases.data();
  const int32_t* banned = step.banned_ids.data();
  const uint32_t* words = step.allowed_words.data();
  for (SamplingRow& row : step.sampling) {
    row.counts = std::exchange(counts, counts + row.n_counts);
    row.biases = std::exchange(biases, biases + row.n_biases);
    row.banned_ids = std::exchange(banned, banned + row.n_banned);
    if (row.allowed != nullptr) row.allowed = std::exchange(words, words + step.allowed_stride);
  }
}

void StepBuilder::add_block_table(const Sequence& sequence, LanguageStep& step) const {
  step.block_tables.insert(step.block_tables.end(), sequence.blocks.begin(), sequence.blocks.end());
  const auto stride = static_cast<size_t>(step.block_table_stride);
  step.block_tables.insert(step.block_tables.end(), stride - sequence.blocks.size(), 0);
}

}  // namespace hs
