#include "api/chrome_trace.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string_view>

#include "api/json_writer.h"

namespace hs {
namespace {

std::string_view name_of(const TimelineEntry& entry) {
  switch (entry.kind) {
    case WorkOrder::Kind::kEncode:
      return "encode";
    case WorkOrder::Kind::kTransfer:
      return "transfer embeddings";
    case WorkOrder::Kind::kKv:
      return "transfer KV";
    case WorkOrder::Kind::kStep:
      break;
  }
  // A step that samples a token for each of its tokens only decodes.
  const bool decodes = entry.n_sampled == entry.n_rows;
  if (entry.stolen) return decodes ? "stolen decode" : "stolen prefill";
  return decodes ? "decode" : "prefill";
}

// What the numbers of `n_requests` and `n_rows` are called.
std::string_view items_of(WorkOrder::Kind kind) {
  return kind == WorkOrder::Kind::kStep ? "sequences"
         : kind == WorkOrder::Kind::kKv ? "requests"
                                        : "images";
}

void append_event(std::string& out, const TimelineEntry& entry, size_t lane) {
  const bool step = entry.kind == WorkOrder::Kind::kStep;
  auto at = std::back_inserter(out);
  fmt::format_to(
      at, R"(,{{"name":"{}","ph":"X","ts":{},"dur":{},"pid":1,"tid":{},"args":{{"unit":{})",
      name_of(entry), entry.started_us, entry.finished_us - entry.started_us, lane, entry.unit);
  if (entry.request != 0) fmt::format_to(at, R"(,"request":{})", entry.request);
  fmt::format_to(at, R"(,"{}":{},"{}":{})", items_of(entry.kind), entry.n_requests,
                 step ? "tokens" : "rows", entry.n_rows);
  if (step) fmt::format_to(at, R"(,"sampled":{})", entry.n_sampled);
  if (entry.bytes > 0) fmt::format_to(at, R"(,"bytes":{})", entry.bytes);
  if (entry.failed) out += R"(,"failed":true)";
  out += "}}";
}

}  // namespace

std::string chrome_trace(std::span<const LaneTimeline> lanes, int64_t now_us) {
  std::string out =
      R"({"traceEvents":[{"name":"process_name","ph":"M","pid":1,"args":{"name":"HeteroServe"}})";
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    fmt::format_to(std::back_inserter(out),
                   R"(,{{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":)", lane);
    append_json_string(out, lanes[lane].lane);
    out += "}}";
    for (const TimelineEntry& entry : lanes[lane].entries) append_event(out, entry, lane);
  }
  return out + fmt::format(R"(],"displayTimeUnit":"ms","otherData":{{"now_us":{}}}}})", now_us);
}

}  // namespace hs
