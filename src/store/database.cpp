#include "store/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>
#include <iterator>
#include <utility>

namespace hs {
namespace {

ErrorKind kind_of(int rc) {
  // SQLite says FULL for ENOSPC only; an exhausted quota or file size limit comes as a failed
  // write.
  if (rc == SQLITE_IOERR_WRITE || rc == SQLITE_IOERR_SHMSIZE) return ErrorKind::kResourceExhausted;
  switch (rc & 0xFF) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return ErrorKind::kResourceExhausted;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorKind::kUnavailable;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorKind::kDataLoss;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_PROTOCOL:
    case SQLITE_NOLFS:
      return ErrorKind::kIo;
    default:
      return ErrorKind::kInternal;
  }
}

std::unexpected<Error> failure(sqlite3* db, int rc) {
  return fail(kind_of(db != nullptr ? sqlite3_extended_errcode(db) : rc),
              fmt::format("SQLite: {}", db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(rc)));
}

// SQLite's URI form; a path may hold the characters that mean something in one.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#')
      fmt::format_to(std::back_inserter(uri), "%{:02X}", static_cast<unsigned>(c));
    else
      uri += c;
  }
  return uri + "?immutable=1";
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Status Statement::check(int rc) const {
  if (rc == SQLITE_OK) return {};
  return failure(sqlite3_db_handle(statement_.get()), rc);
}

Status Statement::bind(int parameter, int64_t value) {
  return check(sqlite3_bind_int64(statement_.get(), parameter, value));
}

Status Statement::bind(int parameter, std::string_view text) {
  // SQLite takes a null pointer for NULL, and an empty view may hold one.
  const char* data = text.data() != nullptr ? text.data() : "";
  // SQLITE_TRANSIENT without its C-style cast.
  const auto copy = reinterpret_cast<sqlite3_destructor_type>(intptr_t{-1});
  return check(
      sqlite3_bind_text64(statement_.get(), parameter, data, text.size(), copy, SQLITE_UTF8));
}

Status Statement::bind_null(int parameter) {
  return check(sqlite3_bind_null(statement_.get(), parameter));
}

Result<bool> Statement::step() {
  const int rc = sqlite3_step(statement_.get());
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  return failure(sqlite3_db_handle(statement_.get()), rc);
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string_view Statement::text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

void Database::Close::operator()(sqlite3* db) const {
  sqlite3_close_v2(db);
}

Result<Database> Database::open(const std::string& path, Mode mode, int busy_timeout_ms) {
  sqlite3* handle = nullptr;
  int flags = SQLITE_OPEN_NOMUTEX;
  if (mode == Mode::kReadWrite) flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if (mode != Mode::kReadWrite) flags |= SQLITE_OPEN_READONLY;
  if (mode == Mode::kAtRest) flags |= SQLITE_OPEN_URI;
  const std::string name = mode == Mode::kAtRest ? immutable_uri(path) : path;
  const int rc = sqlite3_open_v2(name.c_str(), &handle, flags, nullptr);
  Database db(handle);  // a handle comes back with most failures too
  if (rc != SQLITE_OK) {
    const bool missing = mode != Mode::kReadWrite && sqlite3_system_errno(handle) == ENOENT;
    auto error = failure(handle, rc);
    if (missing) error.error().kind = ErrorKind::kNotFound;
    return error;
  }
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, busy_timeout_ms);
  return db;
}

Status Database::run(const std::string& sql) {
  const int rc = sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (rc == SQLITE_OK) return {};
  return failure(db_.get(), rc);
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int rc =
      sqlite3_prepare_v2(db_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (rc == SQLITE_OK) return Statement(statement);
  return failure(db_.get(), rc);
}

Result<int64_t> Database::query_integer(std::string_view sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement) return std::unexpected(statement.error());
  const Result<bool> row = statement->step();
  if (!row) return std::unexpected(row.error());
  if (!*row) return fail(ErrorKind::kInternal, fmt::format("SQLite: no row from {}", sql));
  return statement->integer(0);
}

Result<Transaction> Transaction::begin(Database& db) {
  if (const Status begun = db.run("BEGIN IMMEDIATE"); !begun) return std::unexpected(begun.error());
  return Transaction(db);
}

Transaction::~Transaction() {
  // SQLite may have rolled back on its own (full disk); then this does nothing.
  if (db_ != nullptr) (void)db_->run("ROLLBACK");
}

Status Transaction::commit() {
  const Status done = db_->run("COMMIT");
  if (done) db_ = nullptr;
  return done;
}

}  // namespace hs
