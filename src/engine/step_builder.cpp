#include "engine/step_builder.h"

#include <algorithm>

#include "base/check.h"

namespace hs {

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

  for (const StepOrder::Item& item : order.items) {
    const Sequence& sequence = *item.sequence;
    const StepInputs& request = inputs(sequence.request->id);
    add_tokens(item, request, order.n_tokens, step);
    add_image_rows(item, step);
    add_block_table(sequence, step);
    const auto end = static_cast<int32_t>(step.token_ids.size());
    step.cu_query.push_back(end);
    step.context_lens.push_back(item.first + item.count);
    if (!item.sample) continue;
    step.sample_rows.push_back(end - 1);
    add_sampling(sequence, request, step);
  }
  link_token_counts(step);
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
  step.sampling.push_back(row);
}

// The step owns a copy, because the lane reads it while requests come and go.
void StepBuilder::link_token_counts(LanguageStep& step) {
  const TokenCount* next = step.token_counts.data();
  for (SamplingRow& row : step.sampling) {
    if (row.n_counts == 0) continue;
    row.counts = next;
    next += row.n_counts;
  }
}

void StepBuilder::add_block_table(const Sequence& sequence, LanguageStep& step) const {
  step.block_tables.insert(step.block_tables.end(), sequence.blocks.begin(), sequence.blocks.end());
  const auto stride = static_cast<size_t>(step.block_table_stride);
  step.block_tables.insert(step.block_tables.end(), stride - sequence.blocks.size(), 0);
}

}  // namespace hs
