#include "store/request_log.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/log.h"
#include "store/migrations.h"

namespace hs {
namespace {

constexpr int64_t kPruneIntervalUs = 3'600'000'000;
constexpr int64_t kPruneRowsMax = 2000;  // in one transaction, so that a batch waits little
constexpr int64_t kDayMs = 86'400'000;

// Set on every connection that writes. WAL lets readers go on; with synchronous = NORMAL a power
// cut may lose the last batches but never damages the file, and a killed process loses nothing that
// was committed.
constexpr const char* kPragmas =
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = NORMAL;"
    "PRAGMA journal_size_limit = 16777216;";

bool needs_operator(const Error& error) {
  return error.kind == ErrorKind::kUnsupported || error.kind == ErrorKind::kInvalidArgument ||
         error.kind == ErrorKind::kIo || error.kind == ErrorKind::kInternal;
}

// (0, 0) if there is no such file.
std::pair<uint64_t, uint64_t> id_of_file(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return {0, 0};
  return {info.st_dev, info.st_ino};
}

bool looks_like_database(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".db" || ending == ".sqlite" || ending == ".sqlite3") return true;
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  std::array<char, 16> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  return std::string_view(head.data(), head.size()) == kMagic;
}

}  // namespace

Result<std::unique_ptr<RequestLog>> RequestLog::open(std::string path, RequestLogOptions options,
                                                     const Clock& clock) {
  std::unique_ptr<RequestLog> log(new RequestLog(std::move(path), std::move(options), clock));
  if (const Status opened = log->ensure_open(); !opened) {
    if (needs_operator(opened.error())) {
      Error error = opened.error();
      error.message = fmt::format("cannot open the request log {}: {}", log->path_, error.message);
      return std::unexpected(std::move(error));
    }
    log->report(opened.error());
  }
  log->writer_ = std::thread([&writer = *log] { writer.run(); });
  return log;
}

RequestLog::RequestLog(std::string path, RequestLogOptions options, const Clock& clock)
    : path_(std::move(path)), options_(std::move(options)), clock_(clock) {}

RequestLog::~RequestLog() {
  (void)close(2000);
}

void RequestLog::append(RequestRow row) {
  const std::lock_guard lock(mutex_);
  ++stats_.appended;
  if (closing_ || queue_.size() >= options_.queue_rows_max) {
    ++stats_.dropped;
    return;
  }
  queue_.push_back(std::move(row));
  // The writer wakes for the first row, to start its interval, and for a full batch.
  if (queue_.size() == 1 || queue_.size() == options_.batch_rows_max) work_.notify_one();
}

Status RequestLog::flush(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  if (!writer_.joinable()) return {};
  const int64_t ticket = ++n_flushes_wanted_;
  work_.notify_one();
  if (!done_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                      [&] { return n_flushes_tried_ >= ticket; }))
    return fail(ErrorKind::kUnavailable, "the request log was not written in time");
  return last_attempt_;
}

Status RequestLog::close(int64_t timeout_ms) {
  const Status flushed = flush(timeout_ms);
  {
    const std::lock_guard lock(mutex_);
    if (!writer_.joinable()) return {};
    closing_ = true;
    work_.notify_one();
  }
  writer_.join();
  insert_.reset();
  db_.reset();
  const std::lock_guard lock(mutex_);
  stats_.dropped += static_cast<int64_t>(queue_.size() + in_batch_);
  queue_.clear();
  in_batch_ = 0;
  return flushed;
}

RequestLogStats RequestLog::stats() const {
  const std::lock_guard lock(mutex_);
  RequestLogStats stats = stats_;
  stats.queued = static_cast<int64_t>(queue_.size() + in_batch_);
  return stats;
}

// Waits for rows, gives them the batch interval to become many, and writes. After a failure only a
// flush or the retry interval brings the next attempt; appends meanwhile fill the queue.
void RequestLog::run() {
  std::unique_lock lock(mutex_);
  bool failing = false;
  while (true) {
    const auto urgent = [&] { return closing_ || n_flushes_tried_ < n_flushes_wanted_; };
    if (failing)
      work_.wait_for(lock, std::chrono::milliseconds(options_.retry_ms), urgent);
    else if (batch_.empty() && queue_.empty())
      work_.wait(lock, [&] { return urgent() || !queue_.empty(); });
    if (!failing && !urgent())
      work_.wait_for(lock, std::chrono::milliseconds(options_.batch_interval_ms),
                     [&] { return urgent() || queue_.size() >= options_.batch_rows_max; });
    if (closing_ && (failing || (batch_.empty() && queue_.empty()))) return;
    const int64_t ticket = n_flushes_wanted_;
    Status attempt;
    do {
      while (batch_.size() < options_.batch_rows_max && !queue_.empty()) {
        batch_.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      in_batch_ = batch_.size();
      lock.unlock();
      attempt = write_batch();
      lock.lock();
    } while (attempt && !queue_.empty());
    failing = !attempt;
    last_attempt_ = attempt;
    n_flushes_tried_ = ticket;
    done_.notify_all();
  }
}

// Without the mutex. On failure the rows stay in batch_, unless they themselves are at fault.
Status RequestLog::write_batch() {
  if (batch_.empty()) return {};
  if (db_ &&
      id_of_file(path_) != file_id_) {  // removed or moved away: SQLite would write on into nowhere
    insert_.reset();
    db_.reset();
  }
  Status done = ensure_open();
  if (done) done = write_transaction();
  if (!done && done.error().kind == ErrorKind::kDataLoss) {
    done = move_aside();
    if (done) done = ensure_open();
    if (done) done = write_transaction();
  }
  if (done) prune();
  const bool hopeless = !done && done.error().kind == ErrorKind::kInternal;
  {
    const std::lock_guard lock(mutex_);
    const auto n = static_cast<int64_t>(batch_.size());
    if (done) stats_.written += n;
    if (hopeless) stats_.dropped += n;
    if (!done) ++stats_.failed_batches;
    if (done || hopeless) in_batch_ = 0;
  }
  if (done || hopeless) batch_.clear();
  if (!done) {
    report(done.error());
    if (done.error().kind != ErrorKind::kUnavailable) {  // opened anew at the next attempt
      insert_.reset();
      db_.reset();
    }
  }
  return done;
}

Status RequestLog::write_transaction() {
  Result<Transaction> transaction = Transaction::begin(*db_);
  if (!transaction) return std::unexpected(transaction.error());
  for (const RequestRow& row : batch_)
    if (const Status inserted = insert_row(*insert_, row); !inserted) return inserted;
  return transaction->commit();
}

// A damaged file is replaced here too, so that the server starts with one.
Status RequestLog::ensure_open() {
  if (db_) return {};
  Status opened = open_file();
  if (!opened && opened.error().kind == ErrorKind::kDataLoss) {
    opened = move_aside();
    if (opened) opened = open_file();
  }
  return opened;
}

Status RequestLog::open_file() {
  insert_.reset();
  db_.reset();
  Result<Database> db = Database::open(path_, Database::Mode::kReadWrite, options_.busy_timeout_ms);
  if (!db) return std::unexpected(db.error());
  // Has to come before the first table. The rest comes last, so that a file that is not ours keeps
  // its journal mode.
  if (const Status set = db->run("PRAGMA auto_vacuum = INCREMENTAL"); !set) return set;
  if (const Status ours = migrate(*db); !ours) return ours;
  if (const Status set = db->run(kPragmas); !set) return set;
  Result<Statement> insert = prepare_insert(*db);
  if (!insert) return std::unexpected(insert.error());
  db_ = std::move(*db);
  insert_ = std::move(*insert);
  file_id_ = id_of_file(path_);
  ever_open_ = true;
  return {};
}

Status RequestLog::move_aside() {
  insert_.reset();
  db_.reset();
  if (!ever_open_ && !looks_like_database(path_))
    return fail(
        ErrorKind::kInvalidArgument,
        "the file is no SQLite database; remove it, or give the request log another --log-path");
  const std::string aside = fmt::format("{}.damaged-{}", path_, clock_.unix_ms());
  std::error_code error;
  std::filesystem::rename(path_, aside, error);
  if (error)
    return fail(ErrorKind::kIo,
                fmt::format("the file is damaged and cannot be renamed: {}", error.message()));
  // The -wal belongs to the damaged file; left behind it would be taken for the new one's.
  std::filesystem::rename(path_ + "-wal", aside + "-wal", error);
  std::filesystem::remove(path_ + "-shm", error);
  log_error("request log: {} is damaged; it was renamed to {} and a new log is begun", path_,
            aside);
  const std::lock_guard lock(mutex_);
  ++stats_.files_moved_aside;
  return {};
}

// Once an hour, a limited number of rows at a time: while there is more, some after each batch. A
// failure here shows at the next batch. Totals by day stay (usage_daily).
void RequestLog::prune() {
  const int64_t now_us = clock_.now_us();
  if (pruned_us_ && now_us - *pruned_us_ < kPruneIntervalUs) return;
  bool more = false;
  Status done;
  if (options_.retention_days > 0) {
    const int64_t oldest_ms = clock_.unix_ms() - options_.retention_days * kDayMs;
    done = delete_rows(fmt::format("WHERE ts_ms < {}", oldest_ms), kPruneRowsMax, more);
  }
  if (done && !more && options_.retention_bytes > 0) done = shrink(more);
  if (done && more) return;
  pruned_us_ = now_us;
  (void)db_->run("PRAGMA optimize");
}

// As many of the oldest rows as hold what is too much, supposing that all are alike; `more`: look
// again.
Status RequestLog::shrink(bool& more) {
  const Result<int64_t> bytes = bytes_in_use();
  if (!bytes) return std::unexpected(bytes.error());
  if (*bytes <= options_.retention_bytes) return {};
  const Result<int64_t> rows = db_->query_integer("SELECT count(*) FROM requests");
  if (!rows) return std::unexpected(rows.error());
  const double excess = static_cast<double>(*bytes - options_.retention_bytes);
  const auto n =
      static_cast<int64_t>(static_cast<double>(*rows) * excess / static_cast<double>(*bytes)) + 1;
  const Status deleted = delete_rows("ORDER BY ts_ms, row", std::min(n, kPruneRowsMax), more);
  more = *rows > 0;
  return deleted;
}

// Up to n_max of them, whose pages go back to the file system; `more`: perhaps not all.
Status RequestLog::delete_rows(const std::string& which, int64_t n_max, bool& more) {
  const Status deleted = db_->run(fmt::format(
      "DELETE FROM requests WHERE row IN (SELECT row FROM requests {} LIMIT {})", which, n_max));
  if (!deleted) return deleted;
  const Result<int64_t> n = db_->query_integer("SELECT changes()");
  if (!n) return std::unexpected(n.error());
  more = *n == n_max;
  return *n > 0 ? db_->run("PRAGMA incremental_vacuum") : Status();
}

// Of the file, without pages that are free.
Result<int64_t> RequestLog::bytes_in_use() {
  int64_t counts[3] = {};
  constexpr const char* kCounts[] = {"PRAGMA page_count", "PRAGMA freelist_count",
                                     "PRAGMA page_size"};
  for (size_t i = 0; i < 3; ++i) {
    const Result<int64_t> count = db_->query_integer(kCounts[i]);
    if (!count) return count;
    counts[i] = *count;
  }
  return (counts[0] - counts[1]) * counts[2];
}

void RequestLog::report(const Error& error) {
  const int64_t now_us = clock_.now_us();
  if (warned_us_ && now_us - *warned_us_ < options_.warning_interval_ms * 1000) return;
  warned_us_ = now_us;
  const RequestLogStats now = stats();
  const std::string text = fmt::format(
      "request log: cannot write {}: {} ({} rows wait, {} dropped so far; requests are not "
      "affected)",
      path_, error.message, now.queued, now.dropped);
  if (options_.warn)
    options_.warn(text);
  else
    log_warning("{}", text);
}

}  // namespace hs
