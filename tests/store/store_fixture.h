// What the store tests share: rows that can be told apart, a log that
// writes when told.
#pragma once

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>

#include "store/request_log.h"
#include "support/temp_dir.h"

namespace hs::test {

struct StoreDir : TempDir {
  std::string file(const std::string& name) const { return (path() / name).string(); }
};

inline RequestRow row_of(int64_t i) {
  RequestRow row;
  row.id = "req-" + std::to_string(i);
  row.ts_ms = 1'000'000 + i;
  row.endpoint = "/v1/chat/completions";
  row.model = i % 2 == 0 ? "even" : "odd";
  row.status = i % 5 == 0 ? 400 : 200;
  row.prompt_tokens = i;
  return row;
}

// Writes only at a flush: the intervals are longer than any test. No retention, as the rows are
// old.
inline RequestLogOptions quiet_options() {
  RequestLogOptions options;
  options.batch_interval_ms = 1'000'000;
  options.retry_ms = 1'000'000;
  options.busy_timeout_ms = 1;
  options.retention_days = 0;
  options.warn = [](std::string_view) {};
  return options;
}

inline std::unique_ptr<RequestLog> open_log(const std::string& path, RequestLogOptions options,
                                            const Clock& clock) {
  auto log = RequestLog::open(path, std::move(options), clock);
  BOOST_REQUIRE_MESSAGE(log.has_value(), (log ? "" : log.error().message));
  return std::move(*log);
}

inline size_t count_rows(const std::string& path) {
  const auto rows = query_requests(path, {.limit = 1'000'000});
  BOOST_REQUIRE_MESSAGE(rows.has_value(), (rows ? "" : rows.error().message));
  return rows->size();
}

// Long enough for any machine; nothing waits that long unless it fails.
constexpr int64_t kPatienceMs = 60'000;

}  // namespace hs::test
