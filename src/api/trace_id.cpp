#include "api/trace_id.h"

#include <algorithm>

namespace hs {

std::string trace_id_of(std::string_view traceparent) {
  constexpr size_t kTraceAt = 3;
  constexpr size_t kTraceDigits = 32;
  constexpr size_t kHeaderMin = 55;  // of version 00; later ones may be longer
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (traceparent.size() < kHeaderMin || traceparent.starts_with("ff")) return {};
  for (const size_t dash : {size_t{2}, size_t{35}, size_t{52}})
    if (traceparent[dash] != '-') return {};
  const std::string_view trace = traceparent.substr(kTraceAt, kTraceDigits);
  if (!std::ranges::all_of(trace, is_digit)) return {};
  if (std::ranges::all_of(trace, [](char c) { return c == '0'; })) return {};
  return std::string(trace);
}

}  // namespace hs
