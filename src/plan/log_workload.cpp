#include "plan/log_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "store/request_row.h"

namespace hs {
namespace {

constexpr int64_t kTokensMax = 1 << 24;

bool answered(const RequestRow& row) {
  const auto possible = [](int64_t n) { return n >= 1 && n <= kTokensMax; };
  return row.status == 200 && possible(row.prompt_tokens) && possible(row.completion_tokens) &&
         row.vision_tokens <= row.prompt_tokens &&
         row.n_images <= std::max<int64_t>(row.vision_tokens, 0) && row.ts_ms >= 0 &&
         row.ts_ms < std::numeric_limits<int64_t>::max() / 1000;
}

RequestShape shape_of(const RequestRow& row) {
  RequestShape shape;
  const auto vision = static_cast<int32_t>(std::max<int64_t>(row.vision_tokens, 0));
  const auto n_images = static_cast<int32_t>(std::max<int64_t>(row.n_images, 0));
  int32_t left = n_images > 0 ? vision : 0;
  shape.text_tokens = static_cast<int32_t>(row.prompt_tokens) - left;
  for (int32_t i = 0; i < n_images; ++i) {
    const int32_t rows = left / (n_images - i);
    shape.image_rows.push_back(rows);
    left -= rows;
  }
  shape.output_tokens = static_cast<int32_t>(row.completion_tokens);
  return shape;
}

}  // namespace

Result<LoggedWorkload> read_log_workload(const std::string& path) {
  RequestFilter all;
  all.limit = std::numeric_limits<int64_t>::max();
  auto rows = query_requests(path, all);
  if (!rows) return fail(rows.error().kind, fmt::format("{}: {}", path, rows.error().message));
  std::ranges::stable_sort(*rows, {}, &RequestRow::ts_ms);
  LoggedWorkload result;
  for (const RequestRow& row : *rows) {
    if (!answered(row)) {
      ++result.n_skipped;
      continue;
    }
    result.workload.requests.push_back(shape_of(row));
    result.workload.arrivals_us.push_back(row.ts_ms * 1000);
  }
  if (result.workload.requests.empty()) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("{}: none of its {} requests was answered", path, rows->size()));
  }
  const auto& times = result.workload.arrivals_us;
  result.duration_s = static_cast<double>(times.back() - times.front()) / 1e6;
  return result;
}

}  // namespace hs
