// The writer's promises: rows arrive in order and in batches, the queue is bounded and counted,
// many threads may append.
#include <thread>

#include "store/request_log.h"
#include "store/store_fixture.h"
#include "store/usage.h"

using namespace hs;
using namespace hs::test;

BOOST_AUTO_TEST_SUITE(request_log_tests)

BOOST_AUTO_TEST_CASE(flushed_rows_are_in_the_file_in_order) {
  const StoreDir dir;
  const SystemClock clock;
  auto log = open_log(dir.file("log.db"), quiet_options(), clock);
  for (int64_t i = 0; i < 1000; ++i) log->append(row_of(i));
  BOOST_TEST(log->flush(kPatienceMs).has_value());
  BOOST_TEST(log->stats().written == 1000);
  BOOST_TEST(log->stats().queued == 0);
  const auto rows = query_requests(dir.file("log.db"), {.limit = 2000});
  BOOST_TEST_REQUIRE(rows.has_value());
  BOOST_TEST_REQUIRE(rows->size() == 1000U);
  for (size_t i = 0; i < 1000; ++i)
    BOOST_TEST_REQUIRE((rows->at(i) == row_of(static_cast<int64_t>(999 - i))));
}

BOOST_AUTO_TEST_CASE(interval_writes_without_a_flush) {
  const StoreDir dir;
  const SystemClock clock;
  RequestLogOptions options = quiet_options();
  options.batch_interval_ms = 1;
  auto log = open_log(dir.file("log.db"), options, clock);
  log->append(row_of(1));
  while (log->stats().written == 0) std::this_thread::yield();
  BOOST_TEST(count_rows(dir.file("log.db")) == 1U);
}

BOOST_AUTO_TEST_CASE(full_batch_is_written_before_the_interval) {
  const StoreDir dir;
  const SystemClock clock;
  RequestLogOptions options = quiet_options();
  options.batch_rows_max = 4;
  auto log = open_log(dir.file("log.db"), options, clock);
  for (int64_t i = 0; i < 4; ++i) log->append(row_of(i));
  while (log->stats().written < 4) std::this_thread::yield();
  BOOST_TEST(count_rows(dir.file("log.db")) == 4U);
}

BOOST_AUTO_TEST_CASE(rows_over_the_queue_limit_are_dropped_and_counted) {
  const StoreDir dir;
  const SystemClock clock;
  RequestLogOptions options = quiet_options();
  options.queue_rows_max = 10;
  auto log = open_log(dir.file("log.db"), options, clock);
  for (int64_t i = 0; i < 25; ++i) log->append(row_of(i));
  BOOST_TEST(log->stats().appended == 25);
  BOOST_TEST(log->stats().queued == 10);
  BOOST_TEST(log->stats().dropped == 15);
  BOOST_TEST(log->close(kPatienceMs).has_value());
  BOOST_TEST(log->stats().written == 10);
  BOOST_TEST(count_rows(dir.file("log.db")) == 10U);
}

BOOST_AUTO_TEST_CASE(closing_writes_the_rest_and_can_be_repeated) {
  const StoreDir dir;
  const SystemClock clock;
  auto log = open_log(dir.file("log.db"), quiet_options(), clock);
  log->append(row_of(1));
  BOOST_TEST(log->close(kPatienceMs).has_value());
  BOOST_TEST(log->close(kPatienceMs).has_value());
  log->append(row_of(2));
  BOOST_TEST(log->stats().written == 1);
  BOOST_TEST(log->stats().dropped == 1);
  BOOST_TEST(count_rows(dir.file("log.db")) == 1U);
  for (const char* end :
       {"-wal", "-shm"})  // folded into the file, and not begun again by the reader
    BOOST_TEST(!std::filesystem::exists(dir.file("log.db") + end));
}

BOOST_AUTO_TEST_CASE(destruction_writes_the_rest) {
  const StoreDir dir;
  const SystemClock clock;
  open_log(dir.file("log.db"), quiet_options(), clock)->append(row_of(1));
  BOOST_TEST(count_rows(dir.file("log.db")) == 1U);
}

BOOST_AUTO_TEST_CASE(many_threads_append_without_loss) {
  constexpr int64_t kThreads = 8;
  constexpr int64_t kRows = 500;
  const StoreDir dir;
  const SystemClock clock;
  RequestLogOptions options = quiet_options();
  options.batch_interval_ms = 0;
  auto log = open_log(dir.file("log.db"), options, clock);
  {
    std::vector<std::jthread> threads;
    for (int64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int64_t i = 0; i < kRows; ++i) {
          log->append(row_of(t * kRows + i));
          if (i % 100 == 0) (void)log->flush(kPatienceMs);
        }
      });
  }
  BOOST_TEST(log->close(kPatienceMs).has_value());
  BOOST_TEST(log->stats().appended == kThreads * kRows);
  BOOST_TEST(log->stats().written == kThreads * kRows);
  BOOST_TEST(count_rows(dir.file("log.db")) == static_cast<size_t>(kThreads * kRows));
}

BOOST_AUTO_TEST_CASE(equal_ids_are_kept_apart) {
  const StoreDir dir;
  const SystemClock clock;
  auto log = open_log(dir.file("log.db"), quiet_options(), clock);
  for (int i = 0; i < 3; ++i) log->append(row_of(7));
  BOOST_TEST(log->close(kPatienceMs).has_value());
  BOOST_TEST(count_rows(dir.file("log.db")) == 3U);
}

BOOST_AUTO_TEST_CASE(rows_older_than_the_retention_are_deleted) {
  const StoreDir dir;
  ManualClock clock;
  constexpr int64_t kDayUs = 86'400'000'000;
  clock.advance_us(100 * kDayUs);
  RequestLogOptions options = quiet_options();
  options.retention_days = 30;
  auto log = open_log(dir.file("log.db"), options, clock);
  for (const int64_t days : {1, 69, 71, 99}) {
    RequestRow row = row_of(days);
    row.ts_ms = days * kDayUs / 1000;
    log->append(row);
  }
  BOOST_TEST(log->flush(kPatienceMs).has_value());
  BOOST_TEST(count_rows(dir.file("log.db")) == 2U);
  clock.advance_us(2 * kDayUs);
  RequestRow now = row_of(102);
  now.ts_ms = clock.unix_ms();
  log->append(now);
  BOOST_TEST(log->flush(kPatienceMs).has_value());
  const auto rows = query_requests(dir.file("log.db"), {});
  BOOST_TEST_REQUIRE(rows->size() == 2U);
  BOOST_TEST(rows->at(1).id == "req-99");
}

BOOST_AUTO_TEST_CASE(the_oldest_rows_go_while_the_file_is_too_large_and_totals_stay) {
  const StoreDir dir;
  ManualClock clock;
  RequestLogOptions options = quiet_options();
  options.retention_bytes = 400'000;
  auto log = open_log(dir.file("log.db"), options, clock);
  constexpr int64_t kRows = 6000;  // of some 1.2 kB
  for (int64_t i = 0; i < kRows; ++i) {
    RequestRow row = row_of(i);
    row.params_json = std::string(1000, 'p');
    log->append(row);
    if (i % 500 == 499) BOOST_REQUIRE(log->flush(kPatienceMs).has_value());
    if (i % 500 == 499) clock.advance_us(3'600'000'000);  // each time something may be deleted
  }
  BOOST_REQUIRE(log->close(kPatienceMs).has_value());
  // One batch more than fits, at most, is written before some are deleted.
  BOOST_TEST(std::filesystem::file_size(dir.file("log.db")) < 2'000'000U);
  const auto rows = query_requests(dir.file("log.db"), {.limit = 10'000});
  BOOST_TEST_REQUIRE(rows.has_value());
  BOOST_TEST_REQUIRE(!rows->empty());
  BOOST_TEST(rows->size() < 2000U);
  BOOST_TEST(rows->front().id == "req-5999");  // the newest are there, without a gap
  BOOST_TEST(rows->back().id == "req-" + std::to_string(kRows - std::ssize(*rows)));
  int64_t counted = 0;
  const auto usage = query_usage(dir.file("log.db"), 0);
  for (const UsageRow& row : *usage) counted += row.requests;
  BOOST_TEST(counted == kRows);
}

BOOST_AUTO_TEST_CASE(directory_that_is_not_there_is_an_error_at_start) {
  const StoreDir dir;
  const SystemClock clock;
  const auto log = RequestLog::open(dir.file("none/log.db"), quiet_options(), clock);
  BOOST_TEST((!log && log.error().kind == ErrorKind::kIo));
  BOOST_TEST(log.error().message.find("none/log.db") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
