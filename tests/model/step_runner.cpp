#include "step_runner.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/check.h"
#include "model/weights.h"

namespace hs::test {

namespace {

Buffer must(Result<Buffer> buffer) {
  HS_CHECK(buffer.has_value());
  return std::move(*buffer);
}

// Embeddings of all pictures on the device, in its activation dtype.
Buffer encode_rows(Model& model, Device& device, std::span<const ImagePatches* const> images) {
  int64_t rows = 0;
  for (const auto* image : images) rows += model.towers.front()->tokens_of(*image);
  const DType dtype = device.activation_dtype();
  Buffer buffer =
      must(device.allocate(static_cast<size_t>(rows * model.spec.dim) * dtype_bytes(dtype)));
  const Matrix out{buffer.data(), dtype, rows, model.spec.dim, model.spec.dim};
  HS_CHECK(model.towers.front()->encode(images, out).has_value());
  return buffer;
}

// The part of each picture's rows that lies in tokens [first, first + n), as rows of the step from
// `row` on.
void add_image_rows(const StepRunner::Sequence& sequence, int64_t first, int64_t n, int64_t row,
                    size_t row_bytes, LanguageStep& step) {
  int64_t rows_before = 0;
  for (const auto& span : sequence.prompt.spans) {
    const int64_t begin = std::max<int64_t>(first, span.first);
    const int64_t end = std::min<int64_t>(first + n, span.first + span.count);
    if (begin < end) {
      const auto offset = static_cast<size_t>(rows_before + begin - span.first) * row_bytes;
      step.image_rows.push_back(
          {row + begin - first, end - begin,
           static_cast<const std::byte*>(sequence.image_rows.data()) + offset});
      for (int64_t t = begin; t < end; ++t)
        step.token_ids[static_cast<size_t>(row + t - first)] = -1;
    }
    rows_before += span.count;
  }
}

// Position of token t on an axis; prompts of tests need not number theirs.
int32_t position_of(const Prompt& prompt, int64_t axis, int64_t t) {
  const auto n_prompt = std::ssize(prompt.token_ids);
  if (prompt.positions.empty()) return static_cast<int32_t>(t);
  if (t >= n_prompt) return static_cast<int32_t>(t) + prompt.position_delta;
  return prompt.positions[static_cast<size_t>(axis * n_prompt + t)];
}

}  // namespace

StepRunner::StepRunner(Model& model, Device& device, int64_t n_blocks)
    : model_(&model), device_(&device) {
  HS_CHECK(model.languages.front()->allocate_kv(n_blocks).has_value());
  for (int64_t i = 0; i < n_blocks; ++i) free_.push_back(static_cast<int32_t>(i));
  std::shuffle(free_.begin(), free_.end(), std::mt19937(1));
}

StepRunner::Sequence StepRunner::start(Prompt prompt) {
  Sequence sequence;
  sequence.tokens = prompt.token_ids;
  if (!prompt.images.empty()) {
    std::vector<const ImagePatches*> images;
    for (const auto& image : prompt.images) images.push_back(image.get());
    sequence.image_rows = encode_rows(*model_, *device_, images);
  }
  sequence.prompt = std::move(prompt);
  return sequence;
}

void StepRunner::give_blocks(Sequence& sequence, int64_t n_tokens) {
  const auto block_size = model_->spec.kv_layout.block_size;
  while (std::ssize(sequence.blocks) * block_size < n_tokens) {
    HS_CHECK(!free_.empty());
    sequence.blocks.push_back(free_.back());
    free_.pop_back();
  }
}

LanguageStep StepRunner::plan(const std::vector<Share>& shares) {
  const int64_t block_size = model_->spec.kv_layout.block_size;
  LanguageStep step;
  for (int64_t axis = 0; axis < model_->spec.n_position_axes; ++axis) {
    for (const auto& [sequence, n] : shares) {
      for (int64_t t = sequence->n_cached; t < sequence->n_cached + n; ++t) {
        step.positions.push_back(position_of(sequence->prompt, axis, t));
      }
    }
  }
  step.cu_query.push_back(0);
  for (const auto& [sequence, n] : shares) {
    const int64_t row = std::ssize(step.token_ids);
    const int64_t first = sequence->n_cached;
    give_blocks(*sequence, first + n);
    for (int64_t t = first; t < first + n; ++t) {
      step.token_ids.push_back(sequence->tokens[static_cast<size_t>(t)]);
      step.slots.push_back(sequence->blocks[static_cast<size_t>(t / block_size)] * block_size +
                           t % block_size);
    }
    add_image_rows(*sequence, first, n, row,
                   static_cast<size_t>(model_->spec.dim) * dtype_bytes(device_->activation_dtype()),
                   step);
    sequence->n_cached += n;
    step.cu_query.push_back(static_cast<int32_t>(row + n));
    step.context_lens.push_back(static_cast<int32_t>(sequence->n_cached));
    step.block_table_stride =
        std::max(step.block_table_stride, static_cast<int32_t>(sequence->blocks.size()));
    if (sequence->n_cached == std::ssize(sequence->tokens)) {
      step.sample_rows.push_back(static_cast<int32_t>(row + n - 1));
      step.sampling.push_back({.temperature = 0.0F});
    }
  }
  for (const auto& [sequence, n] : shares) {
    const size_t begin = step.block_tables.size();
    step.block_tables.insert(step.block_tables.end(), sequence->blocks.begin(),
                             sequence->blocks.end());
    step.block_tables.resize(begin + static_cast<size_t>(step.block_table_stride), 0);
  }
  return step;
}

void StepRunner::step(const std::vector<Share>& shares) {
  const LanguageStep step = plan(shares);
  std::vector<SampledToken> out(step.sample_rows.size());
  HS_CHECK(model_->languages.front()->step(step, out).has_value());
  size_t next = 0;
  for (const auto& [sequence, n] : shares) {
    if (sequence->n_cached == std::ssize(sequence->tokens))
      sequence->tokens.push_back(out[next++].id);
  }
}

std::vector<float> StepRunner::logits(const std::vector<Share>& shares) {
  std::vector<float> logits;
  HS_CHECK(model_->languages.front()->logits(plan(shares), logits).has_value());
  return logits;
}

void StepRunner::generate(Sequence& sequence, int64_t n, int64_t chunk) {
  while (std::ssize(sequence.tokens) - std::ssize(sequence.prompt.token_ids) < n) {
    step({{&sequence, std::min(chunk, std::ssize(sequence.tokens) - sequence.n_cached)}});
  }
}

std::vector<float> encode_images(Model& model, Device& device,
                                 std::span<const ImagePatches* const> images) {
  const DType dtype = device.activation_dtype();
  const Buffer rows = encode_rows(model, device, images);
  std::vector<std::byte> bytes(rows.bytes());
  device.download(rows.data(), bytes.data(), bytes.size());
  HS_CHECK(device.sync().has_value());
  std::vector<float> values(bytes.size() / dtype_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half = 0;
    if (dtype == DType::kF32) {
      std::memcpy(&values[i], bytes.data() + i * sizeof(float), sizeof(float));
    } else {
      std::memcpy(&half, bytes.data() + i * sizeof half, sizeof half);
      values[i] = dtype == DType::kF16 ? half_to_float(half) : bfloat16_to_float(half);
    }
  }
  return values;
}

}  // namespace hs::test
