#include "api/log_rows.h"

#include <array>
#include <cstdint>
#include <iterator>
#include <utility>
#include <variant>

#include "api/json_writer.h"
#include "api/query_fields.h"

namespace hs {
namespace {

constexpr int64_t kRowsMax = 20'000;  // in one answer: some 15 MB
constexpr int64_t kRowsDefault = 100;

// A field as it is told. Parameters are JSON already.
struct Json {
  std::string RequestRow::* text;
};
struct Field {
  const char* name;
  std::variant<std::string RequestRow::*, int64_t RequestRow::*, bool RequestRow::*, Json> value;
};

constexpr Field kFields[] = {
    {"id", &RequestRow::id},
    {"ts_ms", &RequestRow::ts_ms},
    {"endpoint", &RequestRow::endpoint},
    {"model", &RequestRow::model},
    {"client", &RequestRow::client},
    {"key_name", &RequestRow::key_name},
    {"status", &RequestRow::status},
    {"error_code", &RequestRow::error_code},
    {"finish_reason", &RequestRow::finish_reason},
    {"stream", &RequestRow::stream},
    {"n_images", &RequestRow::n_images},
    {"image_pixels", &RequestRow::image_pixels},
    {"prompt_tokens", &RequestRow::prompt_tokens},
    {"vision_tokens", &RequestRow::vision_tokens},
    {"cached_tokens", &RequestRow::cached_tokens},
    {"completion_tokens", &RequestRow::completion_tokens},
    {"queue_us", &RequestRow::queue_us},
    {"image_fetch_us", &RequestRow::image_fetch_us},
    {"image_fetch_bytes", &RequestRow::image_fetch_bytes},
    {"image_decode_us", &RequestRow::image_decode_us},
    {"encode_us", &RequestRow::encode_us},
    {"transfer_us", &RequestRow::transfer_us},
    {"transfer_bytes", &RequestRow::transfer_bytes},
    {"transfer_path", &RequestRow::transfer_path},
    {"kv_transfer_us", &RequestRow::kv_transfer_us},
    {"kv_transfer_bytes", &RequestRow::kv_transfer_bytes},
    {"stolen", &RequestRow::stolen},
    {"prefill_us", &RequestRow::prefill_us},
    {"first_token_us", &RequestRow::first_token_us},
    {"decode_us", &RequestRow::decode_us},
    {"total_us", &RequestRow::total_us},
    {"bytes_in", &RequestRow::bytes_in},
    {"bytes_out", &RequestRow::bytes_out},
    {"cancelled_by", &RequestRow::cancelled_by},
    {"revision", &RequestRow::revision},
    {"trace_id", &RequestRow::trace_id},
    {"itl_p50_us", &RequestRow::itl_p50_us},
    {"itl_p99_us", &RequestRow::itl_p99_us},
    {"energy_uj", &RequestRow::energy_uj},
    {"cost_micros", &RequestRow::cost_micros},
    {"params", Json{&RequestRow::params_json}},
};

// "" = not known.
std::string plain_text(const RequestRow& row, const Field& field) {
  if (const auto* text = std::get_if<std::string RequestRow::*>(&field.value)) return row.*(*text);
  if (const auto* json = std::get_if<Json>(&field.value)) return row.*(json->text);
  if (const auto* flag = std::get_if<bool RequestRow::*>(&field.value))
    return row.*(*flag) ? "true" : "false";
  const int64_t number = row.*std::get<int64_t RequestRow::*>(field.value);
  return number < 0 ? "" : std::to_string(number);
}

// Quoted where RFC 4180 wants it. A spreadsheet takes text that begins like a formula for one; the
// apostrophe in front is its sign for text.
void append_csv(std::string& out, std::string_view text, bool is_text) {
  const bool formula =
      is_text && !text.empty() && std::string_view("=+-@\t\r").find(text[0]) != text.npos;
  const bool quoted = formula || text.find_first_of(",\"\r\n") != text.npos;
  if (quoted) out += '"';
  if (formula) out += '\'';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  if (quoted) out += '"';
}

void append_csv_row(std::string& out, const RequestRow& row) {
  for (const Field& field : kFields) {
    if (&field != &kFields[0]) out += ',';
    append_csv(out, plain_text(row, field),
               std::holds_alternative<std::string RequestRow::*>(field.value));
  }
  out += "\r\n";
}

std::string csv_head() {
  std::string out;
  for (const Field& field : kFields) {
    if (!out.empty()) out += ',';
    out += field.name;
  }
  return out + "\r\n";
}

void read_status(QueryReader& query, RequestFilter& filter) {
  const std::string status = query.text("status");
  if (status == "ok") {
    filter.status_min = 200;
    filter.status_max = 399;
  } else if (status == "failed") {
    filter.status_min = 400;
  } else if (!status.empty()) {
    filter.status_min = filter.status_max = query.integer("status", 0, 100, 599);
  }
}

}  // namespace

Result<LogQuery> parse_log_query(std::string_view text) {
  QueryReader query(text);
  LogQuery out;
  out.filter.since_ms = query.integer("since_ms", 0, 0, INT64_MAX);
  out.filter.until_ms = query.integer("until_ms", INT64_MAX, 0, INT64_MAX);
  read_status(query, out.filter);
  out.filter.model = query.text("model");
  out.filter.id = query.text("id");
  out.filter.key_name = query.text("key");
  out.filter.images_min = query.integer("images", 0, 0, 1'000'000);
  out.filter.limit = query.integer("limit", kRowsDefault, 1, kRowsMax);
  const std::string format = query.text("format", "json");
  if (const Status read = query.status(); !read) return std::unexpected(read.error());
  if (format == "jsonl")
    out.format = LogFormat::kJsonLines;
  else if (format == "csv")
    out.format = LogFormat::kCsv;
  else if (format != "json")
    return std::unexpected(Error{ErrorKind::kInvalidArgument,
                                 "'format' must be json, jsonl or csv.", "invalid_value",
                                 "format"});
  return out;
}

std::string log_row_json(const RequestRow& row) {
  std::string out = "{";
  for (const Field& field : kFields) {
    if (out.size() > 1) out += ',';
    append_json_string(out, field.name);
    out += ':';
    const std::string text = plain_text(row, field);
    if (text.empty())
      out += "null";
    else if (std::holds_alternative<std::string RequestRow::*>(field.value))
      append_json_string(out, text);
    else
      out += text;
  }
  return out + '}';
}

std::string log_csv_head() {
  return csv_head();
}

std::string log_row_csv(const RequestRow& row) {
  std::string out;
  append_csv_row(out, row);
  return out;
}

std::string log_rows_text(std::span<const RequestRow> rows, LogFormat format) {
  std::string out;
  if (format == LogFormat::kCsv) {
    out = csv_head();
    for (const RequestRow& row : rows) append_csv_row(out, row);
    return out;
  }
  const bool lines = format == LogFormat::kJsonLines;
  if (!lines) out = "{\"rows\":[";
  for (const RequestRow& row : rows) {
    if (!lines && out.back() != '[') out += ',';
    out += log_row_json(row);
    if (lines) out += '\n';
  }
  if (!lines) out += "]}";
  return out;
}

std::string_view log_content_type(LogFormat format) {
  switch (format) {
    case LogFormat::kJson:
      return "application/json";
    case LogFormat::kJsonLines:
      return "application/jsonl; charset=utf-8";
    case LogFormat::kCsv:
      return "text/csv; charset=utf-8; header=present";
  }
  return "application/json";
}

}  // namespace hs
