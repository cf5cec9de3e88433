// `heteroserve keys`: makes, lists and revokes API keys, and says what each used.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "api/key_json.h"
#include "app/commands.h"
#include "app/exit_codes.h"
#include "base/clock.h"
#include "store/api_keys.h"
#include "store/usage.h"

namespace hs {
namespace {

constexpr int64_t kDayMs = 86'400'000;

// A name that no key can have is a wrong command line; one that is taken, or unknown, fails. A file
// that is no file of keys is a wrong setting, as it is for `serve`.
int failure(const Error& error) {
  print_error(error);
  if (error.code == kBadKeyName) return kExitUsage;
  if (error.code == kKeyExists) return kExitFailure;
  const bool file_is_wrong = error.kind == ErrorKind::kInvalidArgument ||
                             error.kind == ErrorKind::kUnsupported ||
                             error.kind == ErrorKind::kDataLoss;
  return file_is_wrong ? kExitConfig : kExitFailure;
}

std::string limit_text(int64_t limit) {
  return limit == 0 ? "-" : std::to_string(limit);
}

std::string day_text(int64_t unix_ms) {
  return fmt::format("{:%Y-%m-%d}", fmt::localtime(static_cast<std::time_t>(unix_ms / 1000)));
}

int create(const Config& config, const KeysOptions& options) {
  ApiKey wanted;
  wanted.name = options.name;
  wanted.admin = options.admin;
  wanted.concurrency_max = options.concurrency;
  wanted.per_minute_max = options.per_minute;
  const auto made = create_key(config.keys_path, wanted, SystemClock().unix_ms());
  if (!made) return failure(made.error());
  if (options.json)
    fmt::print("{}\n", new_key_json(*made));
  else
    fmt::print("{}\n", made->key);
  std::fflush(stdout);
  fmt::print(stderr, "This is the only time that the key is shown; {} keeps its hash.\n",
             config.keys_path);
  const auto keys = read_keys(config.keys_path);
  const bool has_admin = keys && std::ranges::any_of(*keys, [](const ApiKey& key) {
                           return key.admin && key.is_good();
                         });
  if (!has_admin)
    fmt::print(stderr,
               "No key is an admin key yet: the request log, metrics and settings need one "
               "(--admin).\n");
  return kExitOk;
}

int list(const Config& config, const KeysOptions& options) {
  const auto keys = read_keys(config.keys_path);
  if (!keys) return failure(keys.error());
  if (!options.json)
    fmt::print("{:>3}  {:<24}  {:<5}  {:<7}  {:>11}  {:>10}  {:<10}  {}\n", "ID", "NAME", "ADMIN",
               "KEY", "AT A TIME", "A MINUTE", "MADE", "STATE");
  for (const ApiKey& key : *keys) {
    if (options.json)
      fmt::print("{}\n", key_json(key));
    else
      fmt::print("{:>3}  {:<24}  {:<5}  ...{:<4}  {:>11}  {:>10}  {:<10}  {}\n", key.id, key.name,
                 key.admin ? "yes" : "no", key.last4, limit_text(key.concurrency_max),
                 limit_text(key.per_minute_max), day_text(key.created_ms),
                 key.is_good() ? "good" : "revoked " + day_text(key.revoked_ms));
  }
  return kExitOk;
}

int revoke(const Config& config, const KeysOptions& options) {
  const auto key = revoke_key(config.keys_path, options.name, SystemClock().unix_ms());
  if (!key) return failure(key.error());
  if (options.json)
    fmt::print("{}\n", key_json(*key));
  else
    fmt::print("Key {} ({}) is revoked; running servers know within seconds.\n", key->id,
               key->name);
  return kExitOk;
}

int usage(const Config& config, const KeysOptions& options) {
  const auto rows =
      query_usage(config.log_path, SystemClock().unix_ms() - (options.days - 1) * kDayMs);
  if (!rows && rows.error().kind == ErrorKind::kNotFound) {
    print_error(rows.error());
    return kExitUnavailable;  // as `logs`
  }
  if (!rows) return failure(rows.error());
  if (!options.json)
    fmt::print("{:<24}  {:<24}  {:>9}  {:>7}  {:>8}  {:>13}  {:>13}  {:>13}\n", "KEY", "MODEL",
               "REQUESTS", "FAILED", "PICTURES", "PROMPT", "OF PICTURES", "ANSWER");
  for (const UsageRow& row : *rows) {
    if (options.json)
      fmt::print("{}\n", usage_json(row));
    else
      fmt::print("{:<24}  {:<24}  {:>9}  {:>7}  {:>8}  {:>13}  {:>13}  {:>13}\n",
                 row.key_name.empty() ? "-" : row.key_name, row.model.empty() ? "-" : row.model,
                 row.requests, row.failed, row.images, row.prompt_tokens, row.vision_tokens,
                 row.completion_tokens);
  }
  return kExitOk;
}

}  // namespace

int keys_command(const Config& config, const KeysOptions& options) {
  if (options.action == "create") return create(config, options);
  if (options.action == "list") return list(config, options);
  if (options.action == "revoke") return revoke(config, options);
  return usage(config, options);
}

}  // namespace hs
