// Sums and percentiles of the request log: what an admin asks of a week.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "store/request_row.h"
#include "store/usage.h"

namespace hs {

struct StatsFilter {
  int64_t since_ms = 0;
  std::string model = {};     // "" = any
  std::string key_name = {};  // "" = any
  int64_t slowest_max = 5;
};

// By the nearest rank, of the rows that have the value. -1: none has.
struct Percentiles {
  int64_t n = 0;
  int64_t p50 = -1;
  int64_t p95 = -1;
  int64_t p99 = -1;
};

struct LogStats {
  // From the daily totals, which outlive the rows: by day (UTC), key and model, the newest first.
  std::vector<std::pair<std::string, UsageRow>> days;
  // From the rows that are still there. Microseconds, of answered requests.
  int64_t requests = 0;
  Percentiles first_token_us;
  Percentiles itl_us;  // of each request's median gap between tokens
  Percentiles total_us;
  struct Failure {
    int64_t status = -1;
    std::string code;
    int64_t requests = 0;
  };
  std::vector<Failure> failures;    // the most frequent first
  std::vector<RequestRow> slowest;  // by total time, of answered requests
};

// Opens the request log at `path` read-only, as query_requests() does.
Result<LogStats> query_stats(const std::string& path, const StatsFilter& filter);

// What there is to say of a log that is not being served: its schema may be another one.
struct LogFacts {
  int64_t schema = 0;
  int64_t rows = 0;      // 0 where the schema is not this build's
  int64_t bytes = 0;     // of the file, without its -wal
  bool is_sound = true;  // what PRAGMA quick_check says of files up to check_bytes_max
};
Result<LogFacts> inspect_log(const std::string& path, int64_t check_bytes_max);

}  // namespace hs
