#include "model/step_inputs.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace hs {

namespace {

constexpr size_t kAlignment = 64;

constexpr size_t padded(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Result<StepInputs> StepInputs::allocate(Device& device, int32_t n_axes, int32_t max_tokens,
                                        int32_t max_blocks) {
  StepInputs inputs;
  inputs.n_axes_ = n_axes;
  inputs.max_tokens_ = max_tokens;
  inputs.max_blocks_ = max_blocks;
  const auto n = static_cast<size_t>(max_tokens);
  const size_t bytes = padded(4 * n) + padded(4 * n * static_cast<size_t>(n_axes)) + padded(8 * n) +
                       padded(4 * (n + 1)) + padded(4 * n) +
                       padded(4 * n * static_cast<size_t>(max_blocks)) + padded(4 * n);
  auto buffer = device.allocate(bytes);
  if (!buffer) return std::unexpected(std::move(buffer.error()));
  inputs.buffer_ = std::move(*buffer);
  inputs.staging_.resize(bytes);
  return inputs;
}

template <typename T>
const T* StepInputs::append(const std::vector<T>& values) {
  const size_t bytes = values.size() * sizeof(T);
  HS_CHECK_LE(used_ + padded(bytes), staging_.size());
  if (bytes > 0) std::memcpy(staging_.data() + used_, values.data(), bytes);
  const auto* on_device =
      reinterpret_cast<const T*>(static_cast<const std::byte*>(buffer_.data()) + used_);
  used_ += padded(bytes);
  return on_device;
}

void StepInputs::upload(Device& device, const LanguageStep& step) {
  const size_t n_tokens = step.token_ids.size();
  const size_t n_seqs = step.context_lens.size();
  HS_CHECK_LE(n_tokens, static_cast<size_t>(max_tokens_));
  HS_CHECK_EQ(step.positions.size(), n_tokens * static_cast<size_t>(n_axes_));
  HS_CHECK_EQ(step.slots.size(), n_tokens);
  HS_CHECK_LE(n_seqs, n_tokens);
  HS_CHECK_EQ(step.cu_query.size(), n_seqs + 1);
  HS_CHECK_EQ(static_cast<size_t>(step.cu_query.back()), n_tokens);
  HS_CHECK_LE(step.block_table_stride, max_blocks_);
  HS_CHECK_EQ(step.block_tables.size(), n_seqs * static_cast<size_t>(step.block_table_stride));
  HS_CHECK_LE(step.sample_rows.size(), n_tokens);
  used_ = 0;
  token_ids_ = append(step.token_ids);
  batch_.positions = append(step.positions);
  batch_.slots = append(step.slots);
  batch_.cu_query = append(step.cu_query);
  batch_.context_lens = append(step.context_lens);
  batch_.block_tables = append(step.block_tables);
  sample_rows_ = append(step.sample_rows);
  batch_.n_seqs = static_cast<int64_t>(n_seqs);
  batch_.n_single = 0;
  while (batch_.n_single < batch_.n_seqs) {
    const auto seq = static_cast<size_t>(batch_.n_single);
    if (step.cu_query[seq + 1] - step.cu_query[seq] != 1) break;
    ++batch_.n_single;
  }
  batch_.block_table_stride = step.block_table_stride;
  device.upload(staging_.data(), buffer_.data(), used_);
}

}  // namespace hs
