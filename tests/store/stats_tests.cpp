// Proves that percentiles are those of the nearest rank, that sums, failures and the slowest are of
// the rows asked for, and what a log that is not being served tells of itself.
#include "store/migrations.h"
#include "store/stats.h"
#include "store/store_fixture.h"

namespace hs::test {
namespace {

constexpr int64_t kDayMs = 86'400'000;

struct StatsFixture {
  void write(const std::vector<RequestRow>& rows) {
    const SystemClock clock;
    auto log = open_log(path, quiet_options(), clock);
    for (const RequestRow& row : rows) log->append(row);
    BOOST_REQUIRE(log->close(kPatienceMs).has_value());
  }

  StoreDir dir;
  std::string path = dir.file("log.db");
};

RequestRow answered(int64_t i, int64_t day = 0) {
  RequestRow row = row_of(i);
  row.ts_ms = day * kDayMs + i;
  row.model = "m";
  row.status = 200;
  row.prompt_tokens = 10;
  row.completion_tokens = 5;
  row.first_token_us = 1000 * i;
  row.total_us = 10'000 * i;
  return row;
}

BOOST_FIXTURE_TEST_SUITE(stats_tests, StatsFixture)

BOOST_AUTO_TEST_CASE(percentiles_are_of_the_nearest_rank) {
  std::vector<RequestRow> rows;
  for (int64_t i = 100; i >= 1; --i) rows.push_back(answered(i));
  rows.front().itl_p50_us = 7;
  write(rows);
  const auto stats = query_stats(path, {});
  BOOST_REQUIRE_MESSAGE(stats, (stats ? "" : stats.error().message));
  BOOST_TEST(stats->requests == 100);
  BOOST_TEST(stats->first_token_us.n == 100);
  BOOST_TEST(stats->first_token_us.p50 == 50'000);
  BOOST_TEST(stats->first_token_us.p95 == 95'000);
  BOOST_TEST(stats->first_token_us.p99 == 99'000);
  BOOST_TEST(stats->total_us.p99 == 990'000);
  BOOST_TEST(stats->itl_us.n == 1);
  for (const int64_t value : {stats->itl_us.p50, stats->itl_us.p95, stats->itl_us.p99})
    BOOST_TEST(value == 7);
  BOOST_TEST_REQUIRE(stats->slowest.size() == 5U);
  BOOST_TEST(stats->slowest[0].id == "req-100");
  BOOST_TEST(stats->slowest[4].total_us == 960'000);
}

BOOST_AUTO_TEST_CASE(failures_are_told_by_status_and_code_and_not_timed) {
  std::vector<RequestRow> rows = {answered(1)};
  for (int64_t i = 2; i < 7; ++i) {
    RequestRow row = answered(i);
    row.status = i == 2 ? -1 : 503;
    row.error_code = i == 2 ? "" : i < 6 ? "queue_full" : "device_lost";
    rows.push_back(row);
  }
  write(rows);
  const auto stats = query_stats(path, {});
  BOOST_TEST_REQUIRE(stats->failures.size() == 3U);
  BOOST_TEST(stats->failures[0].code == "queue_full");
  BOOST_TEST(stats->failures[0].requests == 3);
  BOOST_TEST(stats->failures[1].status == -1);
  BOOST_TEST(stats->total_us.n == 1);
  BOOST_TEST(stats->days.front().second.failed == 5);
}

BOOST_AUTO_TEST_CASE(days_keys_and_models_are_kept_apart_and_filtered) {
  std::vector<RequestRow> rows = {answered(1, 1), answered(2, 2), answered(3, 2)};
  rows[1].key_name = "lab";
  rows[1].energy_uj = 5;
  rows[2].model = "n";
  write(rows);
  const auto all = query_stats(path, {});
  BOOST_TEST_REQUIRE(all->days.size() == 3U);
  BOOST_TEST(all->days[0].first == "1970-01-03");
  BOOST_TEST(all->days[2].first == "1970-01-02");
  const auto lab = query_stats(path, {.since_ms = 2 * kDayMs, .model = "m", .key_name = "lab"});
  BOOST_TEST_REQUIRE(lab->days.size() == 1U);
  BOOST_TEST(lab->days[0].second.energy_uj == 5);
  BOOST_TEST(lab->days[0].second.cost_micros == -1);
  BOOST_TEST(lab->requests == 1);
  BOOST_TEST(lab->slowest.size() == 1U);
}

BOOST_AUTO_TEST_CASE(an_empty_log_has_no_percentiles) {
  write({});
  const auto stats = query_stats(path, {});
  BOOST_TEST_REQUIRE(stats.has_value());
  BOOST_TEST(stats->first_token_us.n == 0);
  BOOST_TEST(stats->first_token_us.p50 == -1);
  BOOST_TEST(stats->days.empty());
}

BOOST_AUTO_TEST_CASE(a_log_at_rest_tells_its_schema_rows_and_soundness) {
  write({answered(1), answered(2)});
  const auto facts = inspect_log(path, 1 << 20);
  BOOST_TEST_REQUIRE(facts.has_value());
  BOOST_TEST(facts->schema == schema_version());
  BOOST_TEST(facts->rows == 2);
  BOOST_TEST(facts->is_sound);
  BOOST_TEST((inspect_log(dir.file("none.db"), 1).error().kind == ErrorKind::kNotFound));
  dir.write("bad.db", std::string(8192, 'x'));
  BOOST_TEST((inspect_log(dir.file("bad.db"), 1).error().kind == ErrorKind::kDataLoss));
  auto db = Database::open(path, Database::Mode::kReadWrite, 0);
  BOOST_REQUIRE(db->run("PRAGMA user_version = 99").has_value());
  BOOST_TEST(inspect_log(path, 1 << 20)->schema == 99);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs::test
