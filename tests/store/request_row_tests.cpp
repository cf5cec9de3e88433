// Rows come back as they were written, newest first, through each filter.
#include "store/request_row.h"
#include "store/store_fixture.h"

using namespace hs;
using namespace hs::test;

namespace {

struct TenRows {
  TenRows() {
    auto log = open_log(path, quiet_options(), clock);
    for (int64_t i = 0; i < 10; ++i) log->append(row_of(i));
    BOOST_REQUIRE(log->close(kPatienceMs).has_value());
  }
  std::string ids(const RequestFilter& filter) const {
    const auto rows = query_requests(path, filter);
    BOOST_REQUIRE(rows.has_value());
    std::string found;
    for (const RequestRow& row : *rows) found += row.id.substr(4);
    return found;
  }
  StoreDir dir;
  SystemClock clock;
  std::string path = dir.file("log.db");
};

}  // namespace

BOOST_AUTO_TEST_SUITE(request_row_tests)

BOOST_AUTO_TEST_CASE(every_field_survives) {
  RequestRow full;
  full.id = "id \" ' \xF0\x9F\x99\x82";
  full.ts_ms = 1'764'486'000'123;
  full.endpoint = "/v1/chat/completions";
  full.model = "demo";
  full.client = "::1";
  full.status = 200;
  full.error_code = "code";
  full.finish_reason = "stop";
  full.stream = true;
  full.cancelled_by = "client";
  full.params_json = R"({"temperature":0})";
  full.transfer_path = "peer";
  full.stolen = true;
  int64_t value = 11;
  for (int64_t* number : {&full.n_images,          &full.image_pixels,    &full.prompt_tokens,
                          &full.vision_tokens,     &full.cached_tokens,   &full.completion_tokens,
                          &full.queue_us,          &full.image_decode_us, &full.encode_us,
                          &full.transfer_us,       &full.prefill_us,      &full.first_token_us,
                          &full.decode_us,         &full.total_us,        &full.bytes_in,
                          &full.bytes_out,         &full.transfer_bytes,  &full.kv_transfer_us,
                          &full.kv_transfer_bytes, &full.image_fetch_us,  &full.image_fetch_bytes})
    *number = value++;
  RequestRow zeros = full;
  zeros.ts_ms -= 1;
  zeros.n_images = zeros.queue_us = zeros.completion_tokens = 0;
  RequestRow bare;
  bare.id = "bare";

  const StoreDir dir;
  const SystemClock clock;
  auto log = open_log(dir.file("log.db"), quiet_options(), clock);
  for (const RequestRow& row : {full, zeros, bare}) log->append(row);
  BOOST_REQUIRE(log->close(kPatienceMs).has_value());
  const auto rows = query_requests(dir.file("log.db"), {});
  BOOST_TEST_REQUIRE(rows.has_value());
  BOOST_TEST_REQUIRE(rows->size() == 3U);
  BOOST_TEST((rows->at(0) == full));
  BOOST_TEST((rows->at(1) == zeros));
  BOOST_TEST((rows->at(2) == bare));
}

BOOST_FIXTURE_TEST_CASE(rows_come_newest_first, TenRows) {
  BOOST_TEST(ids({}) == "9876543210");
  BOOST_TEST(ids({.limit = 3}) == "987");
  BOOST_TEST(ids({.limit = 0}) == "");
}

BOOST_FIXTURE_TEST_CASE(each_filter_keeps_what_it_says, TenRows) {
  BOOST_TEST(ids({.since_ms = 1'000'007}) == "987");
  BOOST_TEST(ids({.until_ms = 1'000'002}) == "210");
  BOOST_TEST(ids({.status_min = 400, .status_max = 599}) == "50");
  BOOST_TEST(ids({.status_min = 200, .status_max = 200}) == "98764321");
  BOOST_TEST(ids({.model = "odd"}) == "97531");
  BOOST_TEST(ids({.id = "req-4"}) == "4");
  BOOST_TEST(ids({.since_ms = 1'000'002, .status_max = 299, .model = "even", .limit = 2}) == "86");
  BOOST_TEST(ids({.model = "' OR 1=1 --"}) == "");
}

BOOST_FIXTURE_TEST_CASE(rows_written_later_are_found_by_their_number, TenRows) {
  BOOST_TEST(*last_request_row(path) == 10);
  BOOST_TEST(ids({.after_row = 7}) == "987");
  BOOST_TEST(ids({.model = "odd", .after_row = 2, .until_row = 6}) == "53");
  BOOST_TEST(ids({.after_row = 10}) == "");
  auto log = open_log(path, quiet_options(), clock);
  log->append(row_of(-5));  // an older time; what counts is when it was written
  BOOST_REQUIRE(log->flush(kPatienceMs).has_value());
  BOOST_TEST(*last_request_row(path) == 11);
  BOOST_TEST(ids({.after_row = 10}) == "-5");
  BOOST_TEST((last_request_row(dir.file("none.db")).error().kind == ErrorKind::kNotFound));
}

BOOST_FIXTURE_TEST_CASE(rows_are_readable_while_the_log_is_open, TenRows) {
  auto log = open_log(path, quiet_options(), clock);
  log->append(row_of(10));
  BOOST_REQUIRE(log->flush(kPatienceMs).has_value());
  BOOST_TEST(count_rows(path) == 11U);
}

BOOST_FIXTURE_TEST_CASE(view_for_people_reads_in_any_tool, TenRows) {
  auto db = Database::open(path, Database::Mode::kReadOnly, 0);
  const auto n =
      db->query_integer("SELECT count(*) FROM v_requests WHERE time_utc LIKE '1970-01-01 00:16:%'");
  BOOST_TEST_REQUIRE(n.has_value());
  BOOST_TEST(*n == 10);
}

BOOST_AUTO_TEST_CASE(missing_file_and_other_file_are_told_apart) {
  const StoreDir dir;
  const auto missing = query_requests(dir.file("none.db"), {});
  BOOST_TEST((!missing && missing.error().kind == ErrorKind::kNotFound));
  BOOST_TEST(missing.error().message.find("none.db") != std::string::npos);
  dir.write("text.db", std::string(5000, 'x'));
  const auto text = query_requests(dir.file("text.db"), {});
  BOOST_TEST((!text && text.error().kind == ErrorKind::kDataLoss));
  BOOST_TEST(!std::filesystem::exists(dir.file("none.db")));
}

BOOST_AUTO_TEST_CASE(rows_come_one_by_one_the_oldest_first) {
  const StoreDir dir;
  const SystemClock clock;
  auto log = open_log(dir.file("log.db"), quiet_options(), clock);
  for (int64_t i = 0; i < 100; ++i) {
    RequestRow row = row_of(i);
    row.key_name = i % 3 == 0 ? "lab" : "";
    log->append(row);
  }
  BOOST_REQUIRE(log->close(kPatienceMs).has_value());
  std::vector<std::string> ids;
  const Status read = for_each_request(dir.file("log.db"), {.key_name = "lab", .limit = INT64_MAX},
                                       [&](const RequestRow& row) -> Status {
                                         ids.push_back(row.id);
                                         if (ids.size() < 3) return {};
                                         return fail(ErrorKind::kCancelled, "enough");
                                       });
  BOOST_TEST((!read && read.error().kind == ErrorKind::kCancelled));
  BOOST_TEST(ids == (std::vector<std::string>{"req-0", "req-3", "req-6"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
