// The request log's writer: a bounded queue and one thread. Whatever happens to the file, append()
// returns at once and no request fails or waits because of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "store/request_row.h"

namespace hs {

struct RequestLogOptions {
  size_t queue_rows_max = 8192;  // waiting for the writer; further rows are dropped and counted
  size_t batch_rows_max = 256;   // in one transaction
  int64_t batch_interval_ms =
      200;                  // a row is written at most this much later; a crash loses no more
  int64_t retry_ms = 5000;  // between attempts while the file cannot be written
  int64_t warning_interval_ms = 60'000;
  int busy_timeout_ms = 500;    // for another connection's lock, before the batch is put off
  int64_t retention_days = 30;  // older rows are deleted; 0 = never
  int64_t retention_bytes = int64_t{2} << 30;  // of the file; the oldest rows go; 0 = any size
  // Called by the writer's thread, or in open(). Default: log_warning.
  std::function<void(std::string_view)> warn;
};

// Counters only grow. appended = written + dropped + queued.
struct RequestLogStats {
  int64_t appended = 0;
  int64_t written = 0;
  int64_t dropped = 0;
  int64_t queued = 0;
  int64_t failed_batches = 0;
  int64_t files_moved_aside = 0;
};

// What the writer does when SQLite refuses:
//   disk full, file locked, I/O error: the rows stay queued, the next attempt follows after
//   retry_ms; file damaged: it is renamed to PATH.damaged-TIME (with its -wal) and a new one is
//   begun. A file that this log never opened must look like a database for that (by its first
//   bytes, or a name in .db, .sqlite or .sqlite3), so that a mistaken path renames nobody's file;
//   file removed or moved while open: a new one is begun.
// The first failure and then at most one a minute is reported by `warn`.
class RequestLog {
 public:
  // Opens or creates the file and starts the writer. Fails for what an operator must decide: a file
  // of a newer version or of another program, a path that cannot be opened. A damaged file, a lock
  // or a full disk is no failure here. `clock` must outlive the log.
  static Result<std::unique_ptr<RequestLog>> open(std::string path, RequestLogOptions options,
                                                  const Clock& clock);
  ~RequestLog();  // close(2000)
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  // Any thread. Takes a mutex for the length of a move; never waits for the disk.
  void append(RequestRow row);

  // Waits until every row appended before is in the file. Any thread but the writer's. Fails at
  // once, with the writer's reason, when an attempt to write fails; kUnavailable when timeout_ms
  // has passed.
  Status flush(int64_t timeout_ms);

  // flush(), then the writer ends and the file is closed. What could not be written counts as
  // dropped. Repeatable.
  Status close(int64_t timeout_ms);

  RequestLogStats stats() const;

 private:
  RequestLog(std::string path, RequestLogOptions options, const Clock& clock);

  // Writer's thread, or before it starts.
  void run();
  Status ensure_open();
  Status open_file();
  Status move_aside();
  Status write_batch();
  Status write_transaction();
  void prune();
  Status shrink(bool& more);
  Status delete_rows(const std::string& which, int64_t n_max, bool& more);
  Result<int64_t> bytes_in_use();
  void report(const Error& error);

  const std::string path_;
  const RequestLogOptions options_;
  const Clock& clock_;

  // Only the writer touches these once it runs.
  std::optional<Database> db_;
  std::optional<Statement> insert_;        // of db_; destroyed before it
  std::vector<RequestRow> batch_;          // being written; kept over failed attempts
  std::pair<uint64_t, uint64_t> file_id_;  // device and inode of db_'s file
  bool ever_open_ = false;
  std::optional<int64_t> warned_us_;  // when the last warning was given
  std::optional<int64_t> pruned_us_;  // when there was last nothing left to delete

  mutable std::mutex mutex_;
  std::condition_variable work_;  // for the writer: rows, a flush, the end
  std::condition_variable done_;  // for flush(): an attempt is over
  std::deque<RequestRow> queue_;  // at most queue_rows_max
  RequestLogStats stats_;         // `queued` is filled in by stats()
  size_t in_batch_ = 0;           // batch_.size(), for the others
  int64_t n_flushes_wanted_ = 0;  // tickets of flush()
  int64_t n_flushes_tried_ = 0;   // tickets for which an attempt is over
  Status last_attempt_;
  bool closing_ = false;
  std::thread writer_;
};

}  // namespace hs
