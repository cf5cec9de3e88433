// The request log's schema, as ordered steps: step i brings a file from version i to i + 1 (PRAGMA
// user_version), in one transaction. A step that has shipped is never edited; a change is a new
// step at the end.
#pragma once

#include <span>

#include "base/status.h"
#include "store/database.h"

namespace hs {

// SQL of every step, oldest first. Their number is the version that this build reads and writes.
std::span<const char* const> schema_steps();
int64_t schema_version();

// Brings `db` to the last version. Refuses, without a change: a file of a newer version
// (kUnsupported), and a database that something else made (kInvalidArgument). After a failure the
// file is at the last complete step.
Status migrate(Database& db, std::span<const char* const> steps = schema_steps());

// For readers, who change nothing: the file is a request log of exactly this version.
Status check_schema(Database& db);

}  // namespace hs
