#include "api/key_json.h"

#include <fmt/format.h>

#include "api/json_writer.h"

namespace hs {
namespace {

std::string or_null(int64_t value, bool is_there) {
  return is_there ? std::to_string(value) : "null";
}

// Without the closing brace.
std::string open_json(const ApiKey& key) {
  return fmt::format(
      "{{\"id\":{},\"name\":{},\"last4\":{},\"admin\":{},\"concurrency_max\":{},"
      "\"per_minute_max\":{},\"created_ms\":{},\"revoked_ms\":{}",
      key.id, json_string(key.name), json_string(key.last4), key.admin,
      or_null(key.concurrency_max, key.concurrency_max > 0),
      or_null(key.per_minute_max, key.per_minute_max > 0), key.created_ms,
      or_null(key.revoked_ms, !key.is_good()));
}

}  // namespace

std::string key_json(const ApiKey& key) {
  return open_json(key) + '}';
}

std::string new_key_json(const NewKey& made) {
  return open_json(made.stored) + ",\"key\":" + json_string(made.key) + '}';
}

std::string usage_json(const UsageRow& row) {
  return fmt::format(
      "{{\"key_name\":{},\"model\":{},\"requests\":{},\"failed\":{},\"images\":{},"
      "\"prompt_tokens\":{},\"vision_tokens\":{},\"cached_tokens\":{},\"completion_tokens\":{},"
      "\"energy_uj\":{},\"cost_micros\":{}}}",
      row.key_name.empty() ? "null" : json_string(row.key_name),
      row.model.empty() ? "null" : json_string(row.model), row.requests, row.failed, row.images,
      row.prompt_tokens, row.vision_tokens, row.cached_tokens, row.completion_tokens,
      or_null(row.energy_uj, row.energy_uj >= 0), or_null(row.cost_micros, row.cost_micros >= 0));
}

}  // namespace hs
