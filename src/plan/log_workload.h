// The traffic that a server of ours has logged, to be served again on other devices.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "plan/workload.h"

namespace hs {

struct LoggedWorkload {
  Workload workload;      // in the order of arrival, with times
  int64_t n_skipped = 0;  // rows without an answer: refused, failed, cancelled
  double duration_s = 0;  // from the first arrival to the last
};

// The rows of a request log (store/request_row.h) that were answered. Pictures of one request are
// taken to be of equal size: the log knows how many there were and their tokens together.
// Errors name `path`: no such file, of another schema, no answered request in it.
Result<LoggedWorkload> read_log_workload(const std::string& path);

}  // namespace hs
