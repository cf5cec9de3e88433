// What a server logged becomes requests with the same sizes and times; logs that cannot be read are
// refused in one line.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>

#include "plan/log_workload.h"
#include "store/migrations.h"
#include "store/request_row.h"
#include "support/temp_dir.h"

namespace hs::test {
namespace {

std::string write_log(const TempDir& dir, const std::vector<RequestRow>& rows) {
  const std::string path = dir.path() / "requests.db";
  auto db = Database::open(path, Database::Mode::kReadWrite, 100);
  BOOST_REQUIRE(db.has_value());
  BOOST_REQUIRE(migrate(*db, schema_steps()).has_value());
  auto insert = prepare_insert(*db);
  BOOST_REQUIRE(insert.has_value());
  for (const RequestRow& row : rows) BOOST_REQUIRE(insert_row(*insert, row).has_value());
  return path;
}

RequestRow row(int64_t ts_ms, int64_t n_images, int64_t vision, int64_t prompt, int64_t output,
               int64_t status = 200) {
  RequestRow result;
  result.id = "r";
  result.ts_ms = ts_ms;
  result.status = status;
  result.n_images = n_images;
  result.vision_tokens = vision;
  result.prompt_tokens = prompt;
  result.completion_tokens = output;
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(log_workload_tests)

BOOST_AUTO_TEST_CASE(rows_become_requests_in_order_of_arrival) {
  const TempDir dir;
  const auto logged = read_log_workload(write_log(
      dir, {row(5000, 2, 1025, 1100, 30), row(2000, 0, -1, 12, 7), row(9000, 1, 576, 600, 1)}));
  BOOST_REQUIRE_MESSAGE(logged.has_value(), logged.error().message);
  const auto& requests = logged->workload.requests;
  BOOST_REQUIRE_EQUAL(requests.size(), 3U);
  BOOST_TEST(requests[0].n_prompt() == 12);
  BOOST_TEST(requests[0].image_rows.empty());
  BOOST_TEST((requests[1].image_rows == std::vector<int32_t>{512, 513}));
  BOOST_TEST(requests[1].text_tokens == 75);
  BOOST_TEST(requests[1].output_tokens == 30);
  BOOST_TEST(
      (logged->workload.arrivals_us == std::vector<int64_t>{2'000'000, 5'000'000, 9'000'000}));
  BOOST_TEST(logged->duration_s == 7.0);
}

BOOST_AUTO_TEST_CASE(what_was_not_answered_is_left_out_and_counted) {
  const TempDir dir;
  const auto logged = read_log_workload(
      write_log(dir, {row(1, 0, -1, 5, 5), row(2, 0, -1, 5, 5, 400), row(3, 0, -1, -1, -1),
                      row(4, 0, -1, 5, 0), row(5, 9, 3, 5, 5), row(6, 1, 7, 5, 5)}));
  BOOST_REQUIRE_MESSAGE(logged.has_value(), logged.error().message);
  BOOST_TEST(logged->workload.requests.size() == 1U);
  BOOST_TEST(logged->n_skipped == 5);
}

BOOST_AUTO_TEST_CASE(files_that_are_no_log_of_ours_are_refused_by_name) {
  const TempDir dir;
  const auto refused = [](const std::string& path) {
    const auto logged = read_log_workload(path);
    BOOST_REQUIRE(!logged.has_value());
    BOOST_TEST(logged.error().message.starts_with(path + ": "), logged.error().message);
    BOOST_TEST(logged.error().message.find('\n') == std::string::npos);
  };
  refused(dir.path() / "absent.db");
  const std::string text = dir.path() / "text.db";
  std::ofstream(text) << "no database at all, but some text that is long enough to be read";
  refused(text);
  const std::string other = dir.path() / "other.db";
  auto db = Database::open(other, Database::Mode::kReadWrite, 100);
  BOOST_REQUIRE(db.has_value());
  BOOST_REQUIRE(db->run("CREATE TABLE requests (id TEXT)").has_value());
  refused(other);
  refused(write_log(dir, {row(1, 0, -1, 5, 5, 500)}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
