// `heteroserve stats`: what the request log says of some days.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <string>

#include "api/json_writer.h"
#include "api/key_json.h"
#include "api/log_rows.h"
#include "app/commands.h"
#include "app/exit_codes.h"
#include "base/clock.h"
#include "store/stats.h"

namespace hs {
namespace {

constexpr int64_t kDayMs = 86'400'000;

std::string ms_text(int64_t us) {
  return us < 0 ? "-" : fmt::format("{:.1f}", static_cast<double>(us) * 1e-3);
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : to_valid_utf8(text);
}

std::string scaled_or_dash(int64_t value, double scale, int digits) {
  return value < 0 ? "-" : fmt::format("{:.{}f}", static_cast<double>(value) * scale, digits);
}

void print_text(const LogStats& stats) {
  fmt::print("{:<10}  {:<20}  {:<20}  {:>8}  {:>6}  {:>8}  {:>11}  {:>11}  {:>9}  {:>9}\n", "DAY",
             "KEY", "MODEL", "REQUESTS", "FAILED", "PICTURES", "PROMPT", "ANSWER", "ENERGY Wh",
             "COST");
  for (const auto& [day, row] : stats.days)
    fmt::print("{:<10}  {:<20}  {:<20}  {:>8}  {:>6}  {:>8}  {:>11}  {:>11}  {:>9}  {:>9}\n", day,
               or_dash(row.key_name), or_dash(row.model), row.requests, row.failed, row.images,
               row.prompt_tokens, row.completion_tokens,
               scaled_or_dash(row.energy_uj, 1 / 3.6e9, 2),
               scaled_or_dash(row.cost_micros, 1e-6, 4));
  fmt::print("\n{:<28}  {:>9}  {:>10}  {:>10}  {:>10}\n", "milliseconds", "REQUESTS", "p50", "p95",
             "p99");
  const std::pair<const char*, const Percentiles*> times[] = {
      {"first token", &stats.first_token_us},
      {"next token (median of each)", &stats.itl_us},
      {"whole answer", &stats.total_us}};
  for (const auto& [name, of] : times)
    fmt::print("{:<28}  {:>9}  {:>10}  {:>10}  {:>10}\n", name, of->n, ms_text(of->p50),
               ms_text(of->p95), ms_text(of->p99));
  if (!stats.failures.empty())
    fmt::print("\n{:>6}  {:<32}  {:>8}\n", "STATUS", "ERROR", "REQUESTS");
  for (const LogStats::Failure& failure : stats.failures)
    fmt::print("{:>6}  {:<32}  {:>8}\n", failure.status < 0 ? "-" : std::to_string(failure.status),
               or_dash(failure.code), failure.requests);
  if (!stats.slowest.empty())
    fmt::print("\n{:<36}  {:<19}  {:>4}  {:>7}  {:>7}  {:>9}  {:>10}\n", "SLOWEST", "TIME", "IMGS",
               "PROMPT", "ANSWER", "FIRST ms", "TOTAL ms");
  for (const RequestRow& row : stats.slowest)
    fmt::print("{:<36}  {:%Y-%m-%d %H:%M:%S}  {:>4}  {:>7}  {:>7}  {:>9}  {:>10}\n",
               or_dash(row.id), fmt::localtime(static_cast<std::time_t>(row.ts_ms / 1000)),
               row.n_images, row.prompt_tokens, row.completion_tokens, ms_text(row.first_token_us),
               ms_text(row.total_us));
}

std::string percentiles_json(const Percentiles& of) {
  if (of.n == 0) return "null";
  return fmt::format(R"({{"requests":{},"p50":{},"p95":{},"p99":{}}})", of.n, of.p50, of.p95,
                     of.p99);
}

void print_json(const LogStats& stats) {
  std::string out = "{\"days\":[";
  for (const auto& [day, row] : stats.days) {
    if (out.back() == '}') out += ',';
    const std::string usage = usage_json(row);
    out += fmt::format("{{\"day\":\"{}\",{}", day, usage.substr(1));
  }
  out += fmt::format("],\"requests\":{},\"first_token_us\":{},\"itl_us\":{},\"total_us\":{}",
                     stats.requests, percentiles_json(stats.first_token_us),
                     percentiles_json(stats.itl_us), percentiles_json(stats.total_us));
  out += ",\"failures\":[";
  for (const LogStats::Failure& failure : stats.failures) {
    if (out.back() == '}') out += ',';
    out += fmt::format("{{\"status\":{},\"error_code\":",
                       failure.status < 0 ? "null" : std::to_string(failure.status));
    if (failure.code.empty())
      out += "null";
    else
      append_json_string(out, failure.code);
    out += fmt::format(",\"requests\":{}}}", failure.requests);
  }
  out += "],\"slowest\":[";
  for (const RequestRow& row : stats.slowest) {
    if (out.back() == '}') out += ',';
    out += "{\"id\":";
    append_json_string(out, row.id);
    out += fmt::format(",\"ts_ms\":{},\"first_token_us\":{},\"total_us\":{}}}", row.ts_ms,
                       row.first_token_us < 0 ? "null" : std::to_string(row.first_token_us),
                       row.total_us);
  }
  fmt::print("{}]}}\n", out);
}

}  // namespace

int stats_command(const Config& config, const StatsOptions& options) {
  const StatsFilter filter{.since_ms = SystemClock().unix_ms() - (options.days - 1) * kDayMs,
                           .model = options.model,
                           .key_name = options.key_name,
                           .slowest_max = options.slowest};
  const auto stats = query_stats(config.log_path, filter);
  if (!stats) {
    print_error(stats.error());
    return stats.error().kind == ErrorKind::kNotFound ? kExitUnavailable : kExitFailure;
  }
  if (options.json)
    print_json(*stats);
  else
    print_text(*stats);
  return kExitOk;
}

}  // namespace hs
