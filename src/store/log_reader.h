// Opening the request log to read it, beside a server that may be writing it.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>

#include "base/status.h"
#include "store/database.h"
#include "store/migrations.h"

namespace hs {

// `query(Database&)` of a log of this schema; names the path in what goes wrong. Leaves no file
// behind that the server's user could not open.
template <typename Query>
auto read_log(const std::string& path, const Query& query)
    -> decltype(query(std::declval<Database&>())) {
  constexpr int kBusyTimeoutMs = 5000;
  // Without a -wal no process has the file open for writing. Reading it the ordinary way would
  // create one, owned by whoever reads, and needs a directory that may be written.
  std::error_code ignored;
  const bool at_rest = !std::filesystem::exists(path + "-wal", ignored);
  Result<Database> db = Database::open(
      path, at_rest ? Database::Mode::kAtRest : Database::Mode::kReadOnly, kBusyTimeoutMs);
  Status ours = db ? check_schema(*db) : std::unexpected(db.error());
  auto found = ours ? query(*db) : std::unexpected(ours.error());
  if (found) return found;
  Error error = found.error();
  error.message = error.kind == ErrorKind::kNotFound
                      ? fmt::format("there is no request log at {}", path)
                      : fmt::format("cannot read the request log at {}: {}", path, error.message);
  return std::unexpected(std::move(error));
}

}  // namespace hs
