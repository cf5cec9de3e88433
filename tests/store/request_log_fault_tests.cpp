// Faults made on purpose: full disk, lock, damage, a removed file, kill -9. Rows wait or are
// counted as dropped, and the log goes on by itself afterwards.
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "store/request_log.h"
#include "store/store_fixture.h"

using namespace hs;
using namespace hs::test;

namespace {

// While it lives, the kernel refuses to let any file of this process grow past `bytes`, as a full
// disk would.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    BOOST_REQUIRE_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

// SQLite's own side file has 32 KiB, and the limit counts for bytes inside a file too.
constexpr rlim_t kRoomBytes = 60'000;

// Rows enough of which do not fit kRoomBytes.
RequestRow large_row(int64_t i) {
  RequestRow row = row_of(i);
  row.params_json = std::string(2000, 'p');
  return row;
}

size_t files_with(const StoreDir& dir, std::string_view part) {
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    n += entry.path().filename().string().find(part) != std::string::npos ? 1 : 0;
  return n;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(request_log_fault_tests)

BOOST_AUTO_TEST_CASE(full_disk_keeps_rows_until_there_is_room) {
  const StoreDir dir;
  const SystemClock clock;
  auto log = open_log(dir.file("log.db"), quiet_options(), clock);
  log->append(row_of(0));
  BOOST_REQUIRE(log->flush(kPatienceMs).has_value());
  {
    const FullDisk full(kRoomBytes);
    for (int64_t i = 1; i < 200; ++i) log->append(large_row(i));
    const Status refused = log->flush(kPatienceMs);
    BOOST_TEST_REQUIRE(!refused);
    BOOST_TEST((refused.error().kind == ErrorKind::kResourceExhausted), refused.error().message);
    BOOST_TEST(log->stats().queued == 199);
    BOOST_TEST(log->stats().failed_batches == 1);
    BOOST_TEST(count_rows(dir.file("log.db")) == 1U);
  }
  BOOST_TEST(log->flush(kPatienceMs).has_value());
  BOOST_TEST(log->stats().dropped == 0);
  BOOST_TEST(count_rows(dir.file("log.db")) == 200U);
}

BOOST_AUTO_TEST_CASE(full_disk_for_long_drops_what_the_queue_cannot_hold) {
  const StoreDir dir;
  const SystemClock clock;
  RequestLogOptions options = quiet_options();
  options.queue_rows_max = 100;
  options.batch_rows_max = 50;
  auto log = open_log(dir.file("log.db"), options, clock);
  {
    const FullDisk full(kRoomBytes);
    for (int64_t i = 0; i < 100; ++i) log->append(large_row(i));
    BOOST_TEST(
        !log->flush(kPatienceMs));  // fifty rows have left the queue, for the batch that failed
    for (int64_t i = 100; i < 300; ++i) log->append(large_row(i));
    BOOST_TEST(log->stats().queued == 150);
    BOOST_TEST(log->stats().dropped == 150);
    BOOST_TEST(!log->close(kPatienceMs));
  }
  BOOST_TEST(log->stats().dropped == 300);
  BOOST_TEST(log->stats().written == 0);
}

BOOST_AUTO_TEST_CASE(full_disk_at_start_is_no_error) {
  const StoreDir dir;
  const SystemClock clock;
  std::unique_ptr<RequestLog> log;
  {
    const FullDisk full(100);
    log = open_log(dir.file("log.db"), quiet_options(), clock);
    log->append(row_of(1));
    BOOST_TEST(!log->flush(kPatienceMs));
  }
  BOOST_TEST(log->flush(kPatienceMs).has_value());
  BOOST_TEST(count_rows(dir.file("log.db")) == 1U);
}

BOOST_AUTO_TEST_CASE(locked_file_keeps_rows_until_it_is_free) {
  const StoreDir dir;
  const SystemClock clock;
  auto log = open_log(dir.file("log.db"), quiet_options(), clock);
  auto other = Database::open(dir.file("log.db"), Database::Mode::kReadWrite, 0);
  {
    auto lock = Transaction::begin(*other);
    BOOST_REQUIRE(lock.has_value());
    log->append(row_of(1));
    const Status refused = log->flush(kPatienceMs);
    BOOST_TEST((!refused && refused.error().kind == ErrorKind::kUnavailable));
    BOOST_TEST(log->stats().queued == 1);
  }
  BOOST_TEST(log->flush(kPatienceMs).has_value());
  BOOST_TEST(count_rows(dir.file("log.db")) == 1U);
}

BOOST_AUTO_TEST_CASE(file_locked_at_start_is_no_error) {
  const StoreDir dir;
  const SystemClock clock;
  auto other = Database::open(dir.file("log.db"), Database::Mode::kReadWrite, 0);
  std::unique_ptr<RequestLog> log;
  {
    BOOST_REQUIRE(other->run("BEGIN EXCLUSIVE").has_value());
    log = open_log(dir.file("log.db"), quiet_options(), clock);
    log->append(row_of(1));
    BOOST_TEST(!log->flush(kPatienceMs));
    BOOST_REQUIRE(other->run("ROLLBACK").has_value());
  }
  BOOST_TEST(log->flush(kPatienceMs).has_value());
  BOOST_TEST(count_rows(dir.file("log.db")) == 1U);
}

BOOST_AUTO_TEST_CASE(retry_comes_by_itself) {
  const StoreDir dir;
  const SystemClock clock;
  RequestLogOptions options = quiet_options();
  options.batch_interval_ms = 0;
  options.retry_ms = 1;
  auto log = open_log(dir.file("log.db"), options, clock);
  auto other = Database::open(dir.file("log.db"), Database::Mode::kReadWrite, 0);
  {
    auto lock = Transaction::begin(*other);
    log->append(row_of(1));
    while (log->stats().failed_batches == 0) std::this_thread::yield();
  }
  while (log->stats().written == 0) std::this_thread::yield();
  BOOST_TEST(count_rows(dir.file("log.db")) == 1U);
}

BOOST_AUTO_TEST_CASE(damaged_file_at_start_is_moved_aside) {
  const StoreDir dir;
  const SystemClock clock;
  for (const std::string& bytes :
       {std::string(8192, 'x'), "SQLite format 3" + std::string(500, '\0')}) {
    std::filesystem::remove(dir.file("log.db"));
    dir.write("log.db", bytes);
    auto log = open_log(dir.file("log.db"), quiet_options(), clock);
    BOOST_TEST(log->stats().files_moved_aside == 1);
    log->append(row_of(1));
    BOOST_TEST(log->close(kPatienceMs).has_value());
    BOOST_TEST(count_rows(dir.file("log.db")) == 1U);
  }
  BOOST_TEST(files_with(dir, "log.db.damaged-") >= 1U);
}

BOOST_AUTO_TEST_CASE(file_damaged_under_the_server_is_moved_aside_with_no_row_lost_after) {
  const StoreDir dir;
  const SystemClock clock;
  auto log = open_log(dir.file("log.db"), quiet_options(), clock);
  for (int64_t i = 0; i < 2000; ++i) log->append(row_of(i));
  BOOST_REQUIRE(log->flush(kPatienceMs).has_value());
  {
    auto other = Database::open(dir.file("log.db"), Database::Mode::kReadWrite, 0);
    BOOST_REQUIRE(other->query_integer("PRAGMA wal_checkpoint(TRUNCATE)").has_value());
  }
  {
    // Every page but the first, in place; the writer's cache is emptied of them by another
    // connection's change below.
    const auto size = std::filesystem::file_size(dir.file("log.db"));
    std::fstream file(dir.file("log.db"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(4096);
    file << std::string(size - 4096, '\x5A');
  }
  {
    auto other = Database::open(dir.file("log.db"), Database::Mode::kReadWrite, 0);
    BOOST_REQUIRE(other->run("PRAGMA user_version = 1").has_value());
  }
  log->append(row_of(2000));
  BOOST_TEST(log->flush(kPatienceMs).has_value());
  BOOST_TEST(log->stats().files_moved_aside == 1);
  BOOST_TEST(files_with(dir, "log.db.damaged-") >= 1U);
  BOOST_TEST(count_rows(dir.file("log.db")) == 1U);
}

BOOST_AUTO_TEST_CASE(mistaken_path_to_someone_elses_file_is_refused) {
  const StoreDir dir;
  const SystemClock clock;
  dir.write("notes.txt", "remember the milk\n" + std::string(1000, '.'));
  const auto log = RequestLog::open(dir.file("notes.txt"), quiet_options(), clock);
  BOOST_TEST((!log && log.error().kind == ErrorKind::kInvalidArgument));
  BOOST_TEST(std::filesystem::file_size(dir.file("notes.txt")) == 1018U);
  BOOST_TEST(files_with(dir, "") == 1U);
}

BOOST_AUTO_TEST_CASE(removed_file_is_begun_anew) {
  const StoreDir dir;
  const SystemClock clock;
  auto log = open_log(dir.file("log.db"), quiet_options(), clock);
  log->append(row_of(1));
  BOOST_REQUIRE(log->flush(kPatienceMs).has_value());
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(dir.file("log.db") + end);
  log->append(row_of(2));
  BOOST_TEST(log->flush(kPatienceMs).has_value());
  BOOST_TEST(count_rows(dir.file("log.db")) == 1U);
}

BOOST_AUTO_TEST_CASE(warnings_come_at_most_once_a_minute) {
  const StoreDir dir;
  ManualClock clock;
  std::vector<std::string> warnings;
  RequestLogOptions options = quiet_options();
  options.warn = [&](std::string_view text) { warnings.emplace_back(text); };
  auto log = open_log(dir.file("log.db"), options, clock);
  auto other = Database::open(dir.file("log.db"), Database::Mode::kReadWrite, 0);
  auto lock = Transaction::begin(*other);
  log->append(row_of(1));
  for (int i = 0; i < 5; ++i) BOOST_TEST(!log->flush(kPatienceMs));
  BOOST_TEST_REQUIRE(warnings.size() == 1U);
  BOOST_TEST(warnings[0].find("locked") != std::string::npos, warnings[0]);
  BOOST_TEST(warnings[0].find("requests are not affected") != std::string::npos);
  clock.advance_us(61'000'000);
  for (int i = 0; i < 5; ++i) BOOST_TEST(!log->flush(kPatienceMs));
  BOOST_TEST(warnings.size() == 2U);
}

// Run only by the next case, in a process of its own: it says when its rows are written, and then
// waits for its end.
BOOST_AUTO_TEST_CASE(writer_that_gets_killed, *boost::unit_test::disabled()) {
  const char* path = std::getenv("HS_TEST_LOG");
  BOOST_REQUIRE(path != nullptr);
  const SystemClock clock;
  auto log = open_log(path, quiet_options(), clock);
  for (int64_t i = 0; i < 500; ++i) log->append(row_of(i));
  BOOST_REQUIRE(log->flush(kPatienceMs).has_value());
  log->append(row_of(500));  // not flushed
  BOOST_REQUIRE_EQUAL(write(STDOUT_FILENO, "\1", 1), 1);
  pause();
}

BOOST_AUTO_TEST_CASE(written_rows_survive_kill_9) {
  const StoreDir dir;
  int ends[2];
  BOOST_REQUIRE_EQUAL(pipe(ends), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  setenv("HS_TEST_LOG", dir.file("log.db").c_str(), 1);
  std::string program = "/proc/self/exe";
  std::string which = "--run_test=request_log_fault_tests/writer_that_gets_killed";
  std::string quiet = "--log_level=nothing";
  char* arguments[] = {program.data(), which.data(), quiet.data(), nullptr};
  pid_t child = 0;
  BOOST_REQUIRE_EQUAL(posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ),
                      0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char byte = 0;
  while (read(ends[0], &byte, 1) == 1 && byte != '\1') {
  }
  close(ends[0]);
  BOOST_REQUIRE_EQUAL(kill(child, SIGKILL), 0);
  int status = 0;
  BOOST_REQUIRE_EQUAL(waitpid(child, &status, 0), child);
  BOOST_TEST((WIFSIGNALED(status) && byte == '\1'));

  BOOST_TEST(count_rows(dir.file("log.db")) == 500U);
  const SystemClock clock;
  auto log = open_log(dir.file("log.db"), quiet_options(), clock);
  BOOST_TEST(log->stats().files_moved_aside == 0);
  log->append(row_of(501));
  BOOST_TEST(log->close(kPatienceMs).has_value());
  BOOST_TEST(count_rows(dir.file("log.db")) == 501U);
}

BOOST_AUTO_TEST_SUITE_END()
