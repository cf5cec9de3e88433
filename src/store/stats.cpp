#include "store/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "store/database.h"
#include "store/log_reader.h"
#include "store/migrations.h"

namespace hs {
namespace {

constexpr const char* kAnswered = "status BETWEEN 200 AND 399";

// Parameters 1 to 3 of each query: since, model, key.
std::string where(const StatsFilter& filter) {
  return fmt::format("ts_ms >= ?1{}{}", filter.model.empty() ? "" : " AND model = ?2",
                     filter.key_name.empty() ? "" : " AND key_name = ?3");
}

Result<Statement> prepare(Database& db, const StatsFilter& filter, const std::string& sql) {
  Result<Statement> query = db.prepare(sql);
  if (!query) return query;
  const auto bound = [&]() -> Status {
    if (const Status s = query->bind(1, filter.since_ms); !s) return s;
    if (!filter.model.empty())
      if (const Status s = query->bind(2, filter.model); !s) return s;
    return filter.key_name.empty() ? Status() : query->bind(3, filter.key_name);
  }();
  if (!bound) return std::unexpected(bound.error());
  return query;
}

template <typename Take>
Status for_rows(Database& db, const StatsFilter& filter, const std::string& sql, const Take& take) {
  Result<Statement> query = prepare(db, filter, sql);
  if (!query) return std::unexpected(query.error());
  while (true) {
    const Result<bool> more = query->step();
    if (!more) return std::unexpected(more.error());
    if (!*more) return {};
    take(*query);
  }
}

Status read_days(Database& db, const StatsFilter& filter, LogStats& stats) {
  const std::string sql = fmt::format(
      "SELECT day, key_name, model, requests, failed, images, prompt_tokens, vision_tokens, "
      "cached_tokens, completion_tokens, energy_uj, cost_micros FROM usage_daily WHERE day >= "
      "date(?1 / 1000, 'unixepoch'){}{} ORDER BY day DESC, key_name, model",
      filter.model.empty() ? "" : " AND model = ?2",
      filter.key_name.empty() ? "" : " AND key_name = ?3");
  return for_rows(db, filter, sql, [&](const Statement& row) {
    const auto or_none = [&](int column) { return row.is_null(column) ? -1 : row.integer(column); };
    stats.days.emplace_back(
        std::string(row.text(0)),
        UsageRow{std::string(row.text(1)), std::string(row.text(2)), row.integer(3), row.integer(4),
                 row.integer(5), row.integer(6), row.integer(7), row.integer(8), row.integer(9),
                 or_none(10), or_none(11)});
  });
}

// The nearest rank of p is the ceiling of p * n.
Status read_percentiles(Database& db, const StatsFilter& filter, const char* column,
                        Percentiles& out) {
  const std::string rows = fmt::format("FROM requests WHERE {} AND {} AND {} IS NOT NULL",
                                       where(filter), kAnswered, column);
  if (const Status counted = for_rows(db, filter, "SELECT count(*) " + rows,
                                      [&](const Statement& row) { out.n = row.integer(0); });
      !counted)
    return counted;
  if (out.n == 0) return {};
  const auto rank = [&](int64_t percent) { return (percent * out.n + 99) / 100; };
  const std::pair<int64_t, int64_t*> wanted[] = {
      {rank(50), &out.p50}, {rank(95), &out.p95}, {rank(99), &out.p99}};
  const std::string sql = fmt::format(
      "SELECT v, r FROM (SELECT {0} AS v, row_number() OVER (ORDER BY {0}) AS r {1}) WHERE r IN "
      "({2}, {3}, {4})",
      column, rows, wanted[0].first, wanted[1].first, wanted[2].first);
  return for_rows(db, filter, sql, [&](const Statement& row) {
    for (const auto& [at, value] : wanted)
      if (row.integer(1) == at) *value = row.integer(0);
  });
}

Status read_failures(Database& db, const StatsFilter& filter, LogStats& stats) {
  const std::string sql = fmt::format(
      "SELECT status, error_code, count(*) FROM requests WHERE {} AND ifnull(status, 0) NOT "
      "BETWEEN "
      "200 AND 399 GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2",
      where(filter));
  return for_rows(db, filter, sql, [&](const Statement& row) {
    stats.failures.push_back(
        {row.is_null(0) ? -1 : row.integer(0), std::string(row.text(1)), row.integer(2)});
  });
}

Status read_slowest(Database& db, const StatsFilter& filter, LogStats& stats) {
  const std::string sql = fmt::format(
      "SELECT id, ts_ms, model, n_images, prompt_tokens, completion_tokens, first_token_us, "
      "total_us "
      "FROM requests WHERE {} AND {} AND total_us IS NOT NULL ORDER BY total_us DESC LIMIT {}",
      where(filter), kAnswered, filter.slowest_max);
  return for_rows(db, filter, sql, [&](const Statement& row) {
    RequestRow slow;
    slow.id = row.text(0);
    slow.ts_ms = row.integer(1);
    slow.model = row.text(2);
    slow.status = 200;
    int64_t* const fields[] = {&slow.n_images, &slow.prompt_tokens, &slow.completion_tokens,
                               &slow.first_token_us, &slow.total_us};
    for (int i = 0; i < 5; ++i)
      if (!row.is_null(3 + i)) *fields[i] = row.integer(3 + i);
    stats.slowest.push_back(std::move(slow));
  });
}

Result<LogStats> query_open(Database& db, const StatsFilter& filter) {
  LogStats stats;
  const auto read = [&]() -> Status {
    if (const Status s = read_days(db, filter, stats); !s) return s;
    const std::string count = "SELECT count(*) FROM requests WHERE " + where(filter);
    if (const Status s = for_rows(db, filter, count,
                                  [&](const Statement& row) { stats.requests = row.integer(0); });
        !s)
      return s;
    if (const Status s = read_percentiles(db, filter, "first_token_us", stats.first_token_us); !s)
      return s;
    if (const Status s = read_percentiles(db, filter, "itl_p50_us", stats.itl_us); !s) return s;
    if (const Status s = read_percentiles(db, filter, "total_us", stats.total_us); !s) return s;
    if (const Status s = read_failures(db, filter, stats); !s) return s;
    return read_slowest(db, filter, stats);
  }();
  if (!read) return std::unexpected(read.error());
  return stats;
}

}  // namespace

Result<LogStats> query_stats(const std::string& path, const StatsFilter& filter) {
  return read_log(path, [&](Database& db) { return query_open(db, filter); });
}

Result<LogFacts> inspect_log(const std::string& path, int64_t check_bytes_max) {
  constexpr int kBusyTimeoutMs = 2000;
  std::error_code error;
  const bool at_rest = !std::filesystem::exists(path + "-wal", error);
  Result<Database> db = Database::open(
      path, at_rest ? Database::Mode::kAtRest : Database::Mode::kReadOnly, kBusyTimeoutMs);
  if (!db) return std::unexpected(db.error());
  LogFacts facts;
  facts.bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  const Result<int64_t> version = db->query_integer("PRAGMA user_version");
  if (!version) return std::unexpected(version.error());
  facts.schema = *version;
  if (facts.bytes <= check_bytes_max) {
    Result<Statement> check = db->prepare("PRAGMA quick_check(1)");
    if (!check) return std::unexpected(check.error());
    const Result<bool> row = check->step();
    if (!row) return std::unexpected(row.error());
    facts.is_sound = *row && check->text(0) == "ok";
  }
  if (facts.schema > schema_version()) return facts;
  if (facts.schema == schema_version()) {
    if (const Status ours = check_schema(*db); !ours) return std::unexpected(ours.error());
    const Result<int64_t> rows = db->query_integer("SELECT count(*) FROM requests");
    if (!rows) return std::unexpected(rows.error());
    facts.rows = *rows;
  }
  return facts;
}

}  // namespace hs
