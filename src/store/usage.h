// What each key used of each model, day by day: totals that outlive the rows of the request log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace hs {

struct UsageRow {
  std::string key_name;  // "" = requests without a key
  std::string model;     // "" = requests that got no prompt
  int64_t requests = 0;
  int64_t failed = 0;
  int64_t images = 0;
  int64_t prompt_tokens = 0;
  int64_t vision_tokens = 0;  // of the prompt
  int64_t cached_tokens = 0;  // of the prompt
  int64_t completion_tokens = 0;
  int64_t energy_uj = -1;    // of the requests for which it is known; -1: of none
  int64_t cost_micros = -1;  // likewise

  bool operator==(const UsageRow&) const = default;
};

// Sums of the days (UTC) from that of since_ms on, by key and model. Opens the request log at
// `path` read-only, as query_requests() does.
Result<std::vector<UsageRow>> query_usage(const std::string& path, int64_t since_ms);

}  // namespace hs
