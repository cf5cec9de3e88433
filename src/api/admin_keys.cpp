// The routes that manage API keys. Members of ApiHandler; files are read and written by workers.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/api_handler.h"
#include "api/errors.h"
#include "api/json_parser.h"
#include "api/json_writer.h"
#include "api/key_json.h"
#include "api/object_reader.h"
#include "api/query_fields.h"
#include "api/request_checks.h"
#include "store/api_keys.h"
#include "store/usage.h"

namespace hs {
namespace {

constexpr std::string_view kRevokePrefix = "/admin/keys/";
constexpr std::string_view kRevokeSuffix = "/revoke";
constexpr int64_t kDayMs = 86'400'000;
constexpr int64_t kLimitMax = 1'000'000;

// {"name", "admin", "concurrency_max", "per_minute_max"}; whether the name is free, the file knows.
Result<ApiKey> wanted_key(std::string_view body) {
  const auto parsed = parse_json(body, {.depth_max = 4, .values_max = 100});
  if (!parsed) return std::unexpected(parsed.error());
  if (!parsed->is_object())
    return std::unexpected(
        Error{ErrorKind::kInvalidArgument, "The body must be an object.", "invalid_value", ""});
  ObjectReader reader(*parsed, "");
  ApiKey key;
  if (const std::string* name = reader.string("name")) key.name = *name;
  key.admin = reader.boolean("admin").value_or(false);
  key.concurrency_max = reader.integer("concurrency_max", 0, kLimitMax).value_or(0);
  key.per_minute_max = reader.integer("per_minute_max", 0, kLimitMax).value_or(0);
  // A limit under a wrong name would make a key without one.
  for (const std::string& name : reader.unknown()) {
    reader.fail_field(name, "There is no such field.");
  }
  if (const Status read = reader.status(); !read) return std::unexpected(read.error());
  return key;
}

// A key is a secret: no cache may keep the answer.
HttpResponse private_json(std::string body) {
  HttpResponse response = json_response(200, std::move(body));
  response.headers.push_back({"Cache-Control", "no-store"});
  return response;
}

HttpResponse answer_keys(const std::string& keys_path, const std::string& log_path,
                         int64_t since_ms, bool on) {
  const auto keys = read_keys(keys_path);
  if (!keys) return error_response(keys.error());
  std::vector<UsageRow> usage;
  if (!log_path.empty())
    if (auto rows = query_usage(log_path, since_ms)) usage = *std::move(rows);
  return private_json(std::string("{\"on\":") + (on ? "true" : "false") + ",\"keys\":[" +
                      json_list(*keys, key_json) + "],\"usage\":[" + json_list(usage, usage_json) +
                      "]}");
}

}  // namespace

void ApiHandler::admin_keys(Call call) {
  QueryReader query(call.request.query);
  const int64_t days = query.integer("days", 30, 1, 100'000);
  if (const Status read = query.status(); !read) return reply(call, error_response(read.error()));
  const int64_t since_ms = core_.clock.unix_ms() - (days - 1) * kDayMs;
  auto response = std::make_shared<HttpResponse>();
  answer_from_worker(
      std::move(call),
      [response, keys = options_.keys_path, log = options_.log_path, since_ms,
       on = core_.keys.on()] { *response = answer_keys(keys, log, since_ms, on); },
      [response] { return std::move(*response); });
}

void ApiHandler::admin_create_key(Call call) {
  auto wanted = wanted_key(call.request.body);
  if (!wanted) return reply(call, error_response(wanted.error()));
  change_keys(std::move(call), [path = options_.keys_path, key = *std::move(wanted),
                                now_ms = core_.clock.unix_ms()] {
    const auto made = create_key(path, key, now_ms);
    return made ? private_json(new_key_json(*made)) : error_response(made.error());
  });
}

void ApiHandler::admin_revoke_key(Call call) {
  std::string_view path = call.request.path;
  path.remove_prefix(kRevokePrefix.size());
  path.remove_suffix(kRevokeSuffix.size());
  const auto which = percent_decoded(path);
  if (!which) return reply(call, error_response(which.error()));
  change_keys(std::move(call),
              [file = options_.keys_path, which = *which, now_ms = core_.clock.unix_ms()] {
                const auto key = revoke_key(file, which, now_ms);
                return key ? private_json(key_json(*key)) : error_response(key.error());
              });
}

// What was changed here counts at once, before the answer is sent.
void ApiHandler::change_keys(Call call, std::function<HttpResponse()> change) {
  struct Job {
    HttpResponse response;
    Result<std::vector<ApiKey>> keys;
  };
  auto job = std::make_shared<Job>();
  answer_from_worker(
      std::move(call),
      [job, change = std::move(change), path = options_.keys_path] {
        job->response = change();
        job->keys = read_keys(path);
      },
      [this, job] {
        if (job->keys) core_.keys.set_keys(*job->keys);
        return std::move(job->response);
      });
}

}  // namespace hs
