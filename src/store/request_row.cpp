#include "store/request_row.h"

#include <fmt/format.h>

#include <functional>
#include <iterator>
#include <variant>

#include "store/log_reader.h"

namespace hs {
namespace {

// One place that ties columns to fields; insert and query are built from it.
struct Column {
  const char* name;
  std::variant<std::string RequestRow::*, int64_t RequestRow::*, bool RequestRow::*> field;
};

constexpr Column kColumns[] = {
    {"id", &RequestRow::id},
    {"ts_ms", &RequestRow::ts_ms},
    {"endpoint", &RequestRow::endpoint},
    {"model", &RequestRow::model},
    {"client", &RequestRow::client},
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
    {"image_decode_us", &RequestRow::image_decode_us},
    {"encode_us", &RequestRow::encode_us},
    {"transfer_us", &RequestRow::transfer_us},
    {"prefill_us", &RequestRow::prefill_us},
    {"first_token_us", &RequestRow::first_token_us},
    {"decode_us", &RequestRow::decode_us},
    {"total_us", &RequestRow::total_us},
    {"bytes_in", &RequestRow::bytes_in},
    {"bytes_out", &RequestRow::bytes_out},
    {"cancelled_by", &RequestRow::cancelled_by},
    {"params_json", &RequestRow::params_json},
    {"transfer_bytes", &RequestRow::transfer_bytes},
    {"transfer_path", &RequestRow::transfer_path},
    {"kv_transfer_us", &RequestRow::kv_transfer_us},
    {"kv_transfer_bytes", &RequestRow::kv_transfer_bytes},
    {"stolen", &RequestRow::stolen},
    {"key_name", &RequestRow::key_name},
    {"revision", &RequestRow::revision},
    {"trace_id", &RequestRow::trace_id},
    {"itl_p50_us", &RequestRow::itl_p50_us},
    {"itl_p99_us", &RequestRow::itl_p99_us},
    {"energy_uj", &RequestRow::energy_uj},
    {"cost_micros", &RequestRow::cost_micros},
    {"image_fetch_us", &RequestRow::image_fetch_us},
    {"image_fetch_bytes", &RequestRow::image_fetch_bytes},
};

std::string column_names() {
  std::string names;
  for (const Column& column : kColumns)
    fmt::format_to(std::back_inserter(names), "{}{}", names.empty() ? "" : ", ", column.name);
  return names;
}

Status bind_field(Statement& insert, int parameter, const Column& column, const RequestRow& row) {
  if (const auto* text = std::get_if<std::string RequestRow::*>(&column.field)) {
    const std::string& value = row.*(*text);
    // A row without an id still has one that is text.
    return value.empty() && parameter != 1 ? insert.bind_null(parameter)
                                           : insert.bind(parameter, value);
  }
  if (const auto* number = std::get_if<int64_t RequestRow::*>(&column.field)) {
    const int64_t value = row.*(*number);
    return value < 0 ? insert.bind_null(parameter) : insert.bind(parameter, value);
  }
  return insert.bind(parameter, int64_t{row.*std::get<bool RequestRow::*>(column.field)});
}

RequestRow read_row(const Statement& query) {
  RequestRow row;
  int at = 0;
  for (const Column& column : kColumns) {
    if (!query.is_null(at)) {
      if (const auto* text = std::get_if<std::string RequestRow::*>(&column.field))
        row.*(*text) = query.text(at);
      else if (const auto* number = std::get_if<int64_t RequestRow::*>(&column.field))
        row.*(*number) = query.integer(at);
      else
        row.*std::get<bool RequestRow::*>(column.field) = query.integer(at) != 0;
    }
    ++at;
  }
  return row;
}

enum class Order { kNewestFirst, kOldestFirst };

Status read_rows(Database& db, const RequestFilter& filter, Order order,
                 const std::function<Status(const RequestRow&)>& take) {
  const bool any_status = filter.status_min <= 0 && filter.status_max == INT64_MAX;
  const bool any_row = filter.after_row <= 0 && filter.until_row == INT64_MAX;
  Result<Statement> query = db.prepare(fmt::format(
      "SELECT {0} FROM requests WHERE ts_ms >= ?1 AND ts_ms <= ?2 {1} {2} {3} {4} {5} {6} "
      "ORDER BY ts_ms {7}, row {7} LIMIT ?7",
      column_names(), any_row ? "" : "AND row > ?8 AND row <= ?9",
      any_status ? "" : "AND status >= ?3 AND status <= ?4",
      filter.model.empty() ? "" : "AND model = ?5", filter.id.empty() ? "" : "AND id = ?6",
      filter.images_min <= 0 ? "" : "AND n_images >= ?10",
      filter.key_name.empty() ? "" : "AND key_name = ?11",
      order == Order::kNewestFirst ? "DESC" : "ASC"));
  if (!query) return std::unexpected(query.error());
  const auto bound = [&]() -> Status {
    if (const Status s = query->bind(1, filter.since_ms); !s) return s;
    if (const Status s = query->bind(2, filter.until_ms); !s) return s;
    if (!any_status) {
      if (const Status s = query->bind(3, filter.status_min); !s) return s;
      if (const Status s = query->bind(4, filter.status_max); !s) return s;
    }
    if (!filter.model.empty())
      if (const Status s = query->bind(5, filter.model); !s) return s;
    if (!filter.id.empty())
      if (const Status s = query->bind(6, filter.id); !s) return s;
    if (!any_row) {
      if (const Status s = query->bind(8, filter.after_row); !s) return s;
      if (const Status s = query->bind(9, filter.until_row); !s) return s;
    }
    if (filter.images_min > 0)
      if (const Status s = query->bind(10, filter.images_min); !s) return s;
    if (!filter.key_name.empty())
      if (const Status s = query->bind(11, filter.key_name); !s) return s;
    return query->bind(7, filter.limit);
  }();
  if (!bound) return std::unexpected(bound.error());
  while (true) {
    const Result<bool> more = query->step();
    if (!more) return std::unexpected(more.error());
    if (!*more) return {};
    if (Status taken = take(read_row(*query)); !taken) return taken;
  }
}

}  // namespace

Result<Statement> prepare_insert(Database& db) {
  std::string marks;
  for (size_t i = 0; i < std::size(kColumns); ++i) marks += i == 0 ? "?" : ", ?";
  return db.prepare(fmt::format("INSERT INTO requests ({}) VALUES ({})", column_names(), marks));
}

Status insert_row(Statement& insert, const RequestRow& row) {
  Status done;
  int parameter = 0;
  for (const Column& column : kColumns)
    if (done) done = bind_field(insert, ++parameter, column, row);
  if (done)
    if (const Result<bool> stepped = insert.step(); !stepped)
      done = std::unexpected(stepped.error());
  insert.reset();
  return done;
}

Result<std::vector<RequestRow>> query_requests(const std::string& path,
                                               const RequestFilter& filter) {
  return read_log(path, [&](Database& db) -> Result<std::vector<RequestRow>> {
    std::vector<RequestRow> rows;
    const Status read = read_rows(db, filter, Order::kNewestFirst, [&](const RequestRow& row) {
      rows.push_back(row);
      return Status();
    });
    if (!read) return std::unexpected(read.error());
    return rows;
  });
}

Status for_each_request(const std::string& path, const RequestFilter& filter,
                        const std::function<Status(const RequestRow&)>& take) {
  return read_log(path,
                  [&](Database& db) { return read_rows(db, filter, Order::kOldestFirst, take); });
}

Result<int64_t> last_request_row(const std::string& path) {
  return read_log(path, [](Database& db) -> Result<int64_t> {
    return db.query_integer("SELECT ifnull(max(row), 0) FROM requests");
  });
}

}  // namespace hs
