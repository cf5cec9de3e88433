// Proves that totals by key and model grow with every row, outlive the rows, and are the same after
// an upgrade.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "store/database.h"
#include "store/migrations.h"
#include "store/request_row.h"
#include "store/store_fixture.h"
#include "store/usage.h"

namespace hs::test {
namespace {

constexpr int64_t kDayMs = 86'400'000;

RequestRow row(const std::string& key, const std::string& model, int64_t day, int64_t status) {
  RequestRow out;
  out.id = "r";
  out.ts_ms = day * kDayMs + 5;
  out.key_name = key;
  out.model = model;
  out.status = status;
  if (status == 200) {
    out.n_images = 1;
    out.prompt_tokens = 10;
    out.vision_tokens = 4;
    out.cached_tokens = 2;
    out.completion_tokens = 3;
  }
  return out;
}

struct UsageFixture {
  void write(const std::vector<RequestRow>& rows) {
    auto db = Database::open(path, Database::Mode::kReadWrite, 0);
    BOOST_TEST_REQUIRE(migrate(*db).has_value());
    auto insert = prepare_insert(*db);
    for (const RequestRow& one : rows) BOOST_TEST_REQUIRE(insert_row(*insert, one).has_value());
  }
  void run(const std::string& sql) {
    auto db = Database::open(path, Database::Mode::kReadWrite, 0);
    BOOST_TEST_REQUIRE(db->run(sql).has_value());
  }

  StoreDir dir;
  std::string path = dir.file("log.db");
};

BOOST_FIXTURE_TEST_SUITE(usage_tests, UsageFixture)

BOOST_AUTO_TEST_CASE(rows_add_up_by_key_and_model) {
  write(
      {row("a", "m", 1, 200), row("a", "m", 2, 200), row("a", "n", 2, 200), row("b", "m", 2, 200)});
  const auto usage = query_usage(path, 0);
  BOOST_TEST_REQUIRE(usage.has_value());
  BOOST_TEST_REQUIRE(usage->size() == 3U);
  BOOST_TEST((usage->at(0) == UsageRow{"a", "m", 2, 0, 2, 20, 8, 4, 6}));
  BOOST_TEST((usage->at(1) == UsageRow{"a", "n", 1, 0, 1, 10, 4, 2, 3}));
  BOOST_TEST((usage->at(2) == UsageRow{"b", "m", 1, 0, 1, 10, 4, 2, 3}));
}

BOOST_AUTO_TEST_CASE(failures_count_under_no_models_name) {
  write({row("a", "made-up", 1, 404), row("", "", 1, 503), row("a", "", 1, 499)});
  const auto usage = query_usage(path, 0);
  BOOST_TEST_REQUIRE(usage->size() == 2U);
  BOOST_TEST((usage->at(0) == UsageRow{"", "", 1, 1, 0, 0, 0, 0, 0}));
  BOOST_TEST((usage->at(1) == UsageRow{"a", "", 2, 2, 0, 0, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(only_the_days_asked_for_count) {
  write({row("a", "m", 1, 200), row("a", "m", 5, 200)});
  BOOST_TEST(query_usage(path, 5 * kDayMs + kDayMs / 2)->at(0).requests == 1);
  BOOST_TEST(query_usage(path, 6 * kDayMs)->empty());
}

BOOST_AUTO_TEST_CASE(totals_stay_when_rows_are_deleted) {
  write({row("a", "m", 1, 200)});
  run("DELETE FROM requests");
  BOOST_TEST(query_usage(path, 0)->at(0).prompt_tokens == 10);
}

BOOST_AUTO_TEST_CASE(an_upgrade_counts_the_rows_that_are_there) {
  {
    auto db = Database::open(path, Database::Mode::kReadWrite, 0);
    BOOST_TEST_REQUIRE(migrate(*db, schema_steps().first(2)).has_value());
    BOOST_TEST_REQUIRE(
        db->run("INSERT INTO requests (id, ts_ms, model, status, stream, "
                "prompt_tokens, completion_tokens) VALUES ('x', 0, 'm', 200, 0, 7, 5)")
            .has_value());
    BOOST_TEST_REQUIRE(migrate(*db).has_value());
  }
  const auto usage = query_usage(path, 0);
  BOOST_TEST_REQUIRE(usage->size() == 1U);
  BOOST_TEST((usage->at(0) == UsageRow{"", "m", 1, 0, 0, 7, 0, 0, 5}));
}

BOOST_AUTO_TEST_CASE(without_a_log_there_is_an_error) {
  BOOST_TEST((query_usage(dir.file("none.db"), 0).error().kind == ErrorKind::kNotFound));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs::test
