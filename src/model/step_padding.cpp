#include "model/step_padding.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace hs {

bool is_plain_decode(const LanguageStep& step) {
  const size_t n = step.token_ids.size();
  if (n == 0 || step.context_lens.size() != n || step.sample_rows.size() != n ||
      !step.image_rows.empty()) {
    return false;
  }
  for (size_t i = 0; i < n; ++i) {
    if (step.sample_rows[i] != static_cast<int32_t>(i) || step.token_ids[i] < 0) return false;
  }
  return true;
}

void pad_decode(const LanguageStep& step, int64_t rows, int32_t stride, LanguageStep& padded) {
  const size_t n = step.token_ids.size();
  const auto n_rows = static_cast<size_t>(rows);
  HS_CHECK_LE(n, n_rows);
  HS_CHECK_LE(step.block_table_stride, stride);
  const auto extend = [n_rows](const auto& from, auto filler, auto& to) {
    to.assign(from.begin(), from.end());
    to.resize(n_rows, filler);
  };
  extend(step.token_ids, 0, padded.token_ids);
  extend(step.slots, int64_t{-1}, padded.slots);
  extend(step.context_lens, 0, padded.context_lens);
  const size_t n_axes = n == 0 ? 1 : step.positions.size() / n;
  padded.positions.assign(n_axes * n_rows, 0);
  for (size_t axis = 0; axis < n_axes; ++axis) {
    std::copy_n(step.positions.data() + axis * n, n, padded.positions.data() + axis * n_rows);
  }
  padded.cu_query.resize(n_rows + 1);
  std::iota(padded.cu_query.begin(), padded.cu_query.end(), 0);
  padded.sample_rows.resize(n_rows);
  std::iota(padded.sample_rows.begin(), padded.sample_rows.end(), 0);
  const auto width = static_cast<size_t>(stride);
  const auto own_width = static_cast<size_t>(step.block_table_stride);
  padded.block_table_stride = stride;
  padded.block_tables.assign(n_rows * width, 0);
  for (size_t seq = 0; seq < n; ++seq) {
    std::copy_n(step.block_tables.data() + seq * own_width, own_width,
                padded.block_tables.data() + seq * width);
  }
  padded.image_rows.clear();
}

}  // namespace hs
