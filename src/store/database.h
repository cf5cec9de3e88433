// SQLite with owners instead of handles and Status instead of codes. One thread at a time uses a
// Database and its Statements.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace hs {

// What a failed call means for whoever made it, as Error::kind:
//   kResourceExhausted  the disk takes no more (full, quota), or out of memory; may work later
//   kUnavailable        another connection holds the lock for longer than the busy time-out; may
//   work later kDataLoss           the file is damaged or no SQLite database kIo cannot be opened,
//   read or written (permissions, disk fault, file moved away) kNotFound           a file that was
//   to be read is not there kInternal           our own statement is wrong
class Statement {
 public:
  // Parameters count from 1. The text is copied.
  Status bind(int parameter, int64_t value);
  Status bind(int parameter, std::string_view text);
  Status bind_null(int parameter);

  // True: a row is there to be read. False: done.
  Result<bool> step();
  // Ready to run again, with nothing bound.
  void reset();

  // Columns of the current row count from 0. A text is valid until the next step or reset.
  bool is_null(int column) const;
  int64_t integer(int column) const;
  std::string_view text(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  Status check(int rc) const;

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  enum class Mode {
    kReadWrite,  // creates the file
    kReadOnly,   // may create the -wal and -shm files that reading beside a writer takes
    kAtRest,     // read-only, of a file that nobody writes meanwhile; touches nothing on the disk
  };

  // ":memory:" is a private database in memory.
  static Result<Database> open(const std::string& path, Mode mode, int busy_timeout_ms);

  // Statements without results; several are separated by semicolons.
  Status run(const std::string& sql);
  Result<Statement> prepare(std::string_view sql);
  // First column of the first row.
  Result<int64_t> query_integer(std::string_view sql);

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  explicit Database(sqlite3* db) : db_(db) {}

  std::unique_ptr<sqlite3, Close> db_;
};

// BEGIN IMMEDIATE ... COMMIT. Rolls back unless commit() succeeded.
class Transaction {
 public:
  static Result<Transaction> begin(Database& db);
  Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Database& db) : db_(&db) {}
  Database* db_;  // null once committed or moved from
};

}  // namespace hs
