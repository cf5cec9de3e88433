#include "store/usage.h"

#include <utility>

#include "store/database.h"
#include "store/log_reader.h"

namespace hs {
namespace {

Result<std::vector<UsageRow>> query_open(Database& db, int64_t since_ms) {
  Result<Statement> query = db.prepare(
      "SELECT key_name, model, sum(requests), sum(failed), sum(images), sum(prompt_tokens), "
      "sum(vision_tokens), sum(cached_tokens), sum(completion_tokens), sum(energy_uj), "
      "sum(cost_micros) FROM usage_daily "
      "WHERE day >= date(?1 / 1000, 'unixepoch') GROUP BY key_name, model ORDER BY 1, 2");
  if (!query) return std::unexpected(query.error());
  if (const Status bound = query->bind(1, since_ms); !bound) return std::unexpected(bound.error());
  std::vector<UsageRow> rows;
  while (true) {
    const Result<bool> more = query->step();
    if (!more) return std::unexpected(more.error());
    if (!*more) return rows;
    rows.push_back({std::string(query->text(0)), std::string(query->text(1)), query->integer(2),
                    query->integer(3), query->integer(4), query->integer(5), query->integer(6),
                    query->integer(7), query->integer(8),
                    query->is_null(9) ? -1 : query->integer(9),
                    query->is_null(10) ? -1 : query->integer(10)});
  }
}

}  // namespace

Result<std::vector<UsageRow>> query_usage(const std::string& path, int64_t since_ms) {
  return read_log(path, [&](Database& db) { return query_open(db, since_ms); });
}

}  // namespace hs
