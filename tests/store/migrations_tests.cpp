// A file of any earlier version is brought to this one without losing a row; newer and foreign
// files are left alone.
#include "store/migrations.h"
#include "store/store_fixture.h"
#include "support/source_dir.h"

using namespace hs;
using namespace hs::test;

namespace {

Database memory() {
  auto db = Database::open(":memory:", Database::Mode::kReadWrite, 0);
  BOOST_REQUIRE(db.has_value());
  return std::move(*db);
}

int64_t integer(Database& db, std::string_view sql) {
  const auto value = db.query_integer(sql);
  BOOST_REQUIRE_MESSAGE(value.has_value(), (value ? "" : value.error().message));
  return *value;
}

constexpr const char* kGoodSteps[] = {
    "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (7);",
    "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 1;",
    "CREATE TABLE b AS SELECT x + y AS z FROM a;",
};

}  // namespace

BOOST_AUTO_TEST_SUITE(migrations_tests)

BOOST_AUTO_TEST_CASE(steps_run_in_order_and_once) {
  Database db = memory();
  const std::span<const char* const> steps = kGoodSteps;
  for (size_t n = 1; n <= steps.size(); ++n) {
    BOOST_TEST(migrate(db, steps.first(n)).has_value());
    BOOST_TEST(integer(db, "PRAGMA user_version") == static_cast<int64_t>(n));
    BOOST_TEST(migrate(db, steps.first(n)).has_value());
  }
  BOOST_TEST(integer(db, "SELECT z FROM b") == 8);
  BOOST_TEST(integer(db, "SELECT count(*) FROM a") == 1);
}

BOOST_AUTO_TEST_CASE(failed_step_leaves_the_last_complete_one) {
  Database db = memory();
  const char* const steps[] = {kGoodSteps[0],
                               "INSERT INTO a VALUES (8); INSERT INTO nowhere VALUES (1);"};
  BOOST_TEST(!migrate(db, steps));
  BOOST_TEST(integer(db, "PRAGMA user_version") == 1);
  BOOST_TEST(integer(db, "SELECT count(*) FROM a") == 1);
}

BOOST_AUTO_TEST_CASE(newer_file_is_refused_and_unchanged) {
  const StoreDir dir;
  const SystemClock clock;
  open_log(dir.file("log.db"), quiet_options(), clock);
  {
    auto db = Database::open(dir.file("log.db"), Database::Mode::kReadWrite, 0);
    BOOST_REQUIRE(db->run("PRAGMA user_version = 1000").has_value());
  }
  const auto log = RequestLog::open(dir.file("log.db"), quiet_options(), clock);
  BOOST_TEST_REQUIRE(!log);
  BOOST_TEST((log.error().kind == ErrorKind::kUnsupported));
  BOOST_TEST(log.error().message.find("schema version 1000") != std::string::npos);
  const auto rows = query_requests(dir.file("log.db"), {});
  BOOST_TEST((!rows && rows.error().kind == ErrorKind::kUnsupported));
  auto db = Database::open(dir.file("log.db"), Database::Mode::kReadOnly, 0);
  BOOST_TEST(integer(*db, "PRAGMA user_version") == 1000);
}

BOOST_AUTO_TEST_CASE(database_of_another_program_is_refused_and_unchanged) {
  const StoreDir dir;
  const SystemClock clock;
  {
    auto db = Database::open(dir.file("other.db"), Database::Mode::kReadWrite, 0);
    BOOST_REQUIRE(db->run("CREATE TABLE theirs (x)").has_value());
  }
  const auto log = RequestLog::open(dir.file("other.db"), quiet_options(), clock);
  BOOST_TEST((!log && log.error().kind == ErrorKind::kInvalidArgument));
  auto db = Database::open(dir.file("other.db"), Database::Mode::kReadOnly, 0);
  BOOST_TEST(integer(*db, "PRAGMA application_id") == 0);
  BOOST_TEST(integer(*db, "SELECT count(*) FROM sqlite_master") == 1);
  const auto rows = query_requests(dir.file("other.db"), {});
  BOOST_TEST((!rows && rows.error().kind == ErrorKind::kInvalidArgument));
}

// Every version that shipped left a file in tests/golden/store.
BOOST_AUTO_TEST_CASE(file_of_every_earlier_version_is_upgraded_with_its_rows) {
  const std::filesystem::path fixtures = source_dir() + "/tests/golden/store";
  const SystemClock clock;
  for (int64_t version = 1; version <= schema_version(); ++version) {
    const StoreDir dir;
    const std::string path = dir.file("log.db");
    std::filesystem::copy_file(fixtures / ("schema_" + std::to_string(version) + ".db"), path);
    auto log = open_log(path, quiet_options(), clock);
    log->append(row_of(1000));
    BOOST_TEST(log->close(kPatienceMs).has_value());
    const auto rows = query_requests(path, {});
    BOOST_TEST_REQUIRE(rows.has_value());
    BOOST_TEST_REQUIRE(rows->size() == 3U);
    BOOST_TEST((rows->front() == row_of(1000)));
    BOOST_TEST(rows->back().id == "req-1");
    BOOST_TEST(rows->back().status == 200);
    BOOST_TEST(rows->at(1).error_code == "invalid_image");
    BOOST_TEST(rows->at(1).first_token_us == -1);
    BOOST_TEST(rows->back().transfer_path == (version < 2 ? "" : "peer"));
    BOOST_TEST(rows->back().transfer_bytes == (version < 2 ? -1 : 1'179'648));
    BOOST_TEST(rows->back().kv_transfer_us == -1);
    BOOST_TEST(rows->back().stolen == (version >= 2));
    BOOST_TEST(rows->back().energy_uj == (version < 4 ? -1 : 1'250'000));
    BOOST_TEST(rows->back().cost_micros == (version < 4 ? -1 : 42));
    BOOST_TEST(rows->back().revision == (version < 4 ? "" : "0123abcd"));
    BOOST_TEST(rows->back().itl_p99_us == (version < 4 ? -1 : 15'000));
    BOOST_TEST(rows->back().image_fetch_us == (version < 5 ? -1 : 21'000));
    BOOST_TEST(rows->back().image_fetch_bytes == (version < 5 ? -1 : 4096));
  }
}

BOOST_AUTO_TEST_SUITE_END()
