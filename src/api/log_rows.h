// The request log as clients see it: what they may ask for, and rows as JSON and CSV.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "store/request_row.h"

namespace hs {

enum class LogFormat { kJson, kJsonLines, kCsv };

struct LogQuery {
  RequestFilter filter;
  LogFormat format = LogFormat::kJson;
};

// since_ms, until_ms, status (ok, failed or a number), model, id, key (its name), images (least
// number of pictures), limit, format (json, jsonl, csv).
Result<LogQuery> parse_log_query(std::string_view query);

// One object; what is not known is null.
std::string log_row_json(const RequestRow& row);

// The head line and a row of the CSV, each with its line end.
std::string log_csv_head();
std::string log_row_csv(const RequestRow& row);

// {"rows":[...]}, a line a row, or RFC 4180 with a head line.
std::string log_rows_text(std::span<const RequestRow> rows, LogFormat format);
std::string_view log_content_type(LogFormat format);

}  // namespace hs
