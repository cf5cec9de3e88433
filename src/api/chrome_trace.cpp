#include "api/chrome_trace.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace hs {
namespace {

using nlohmann::json;

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

json event_of(const TimelineEntry& entry, size_t lane) {
  json args = {{"unit", entry.unit},
               {"request", entry.request},
               {"requests", entry.n_requests},
               {"rows", entry.n_rows},
               {"failed", entry.failed}};
  if (entry.bytes > 0) args["bytes"] = entry.bytes;
  return {{"name", name_of(entry)},
          {"ph", "X"},
          {"ts", entry.started_us},
          {"dur", entry.finished_us - entry.started_us},
          {"pid", 1},
          {"tid", lane},
          {"args", std::move(args)}};
}

}  // namespace

std::string chrome_trace(const std::vector<LaneTimeline>& lanes) {
  json events = json::array();
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 1},
                      {"tid", lane},
                      {"args", {{"name", lanes[lane].lane}}}});
    for (const TimelineEntry& entry : lanes[lane].entries) {
      events.push_back(event_of(entry, lane));
    }
  }
  return json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace hs
