// `heteroserve logs`: finds rows of the request log.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <ranges>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "api/json_writer.h"
#include "api/log_rows.h"
#include "app/commands.h"
#include "app/exit_codes.h"
#include "base/clock.h"
#include "loop/loop.h"
#include "loop/signal_watcher.h"
#include "loop/timer.h"
#include "store/request_row.h"

namespace hs {
namespace {

std::string count_text(int64_t value) {
  return value < 0 ? "-" : std::to_string(value);
}

std::string ms_text(int64_t us) {
  return us < 0 ? "-" : fmt::format("{:.1f}", static_cast<double>(us) / 1000);
}

void print_titles() {
  fmt::print("{:<19}  {:>6}  {:<24}  {:>4}  {:>6}  {:>6}  {:>6}  {:>9}  {:>10}  {}\n", "TIME",
             "STATUS", "MODEL", "IMGS", "PROMPT", "CACHED", "TOKENS", "FIRST ms", "TOTAL ms",
             "RESULT");
}

void print_line(const RequestRow& row) {
  const auto seconds = static_cast<std::time_t>(row.ts_ms / 1000);
  fmt::print("{:%Y-%m-%d %H:%M:%S}  {:>6}  {:<24}  {:>4}  {:>6}  {:>6}  {:>6}  {:>9}  {:>10}  {}\n",
             fmt::localtime(seconds), count_text(row.status),
             to_valid_utf8(row.model).substr(0, 24), count_text(row.n_images),
             count_text(row.prompt_tokens), count_text(row.cached_tokens),
             count_text(row.completion_tokens), ms_text(row.first_token_us), ms_text(row.total_us),
             row.error_code.empty() ? row.finish_reason : row.error_code);
}

// `rows`: newest first, as they are found.
void print_rows(const std::vector<RequestRow>& rows, bool json) {
  for (const RequestRow& row : rows | std::views::reverse) {
    if (json)
      fmt::print("{}\n", log_row_json(row));
    else
      print_line(row);
  }
  std::fflush(stdout);
}

// Looks for rows that were written since the last look.
class Follower {
 public:
  Follower(std::string path, const RequestFilter& filter, int64_t seen_row, bool json)
      : path_(std::move(path)), filter_(filter), json_(json) {
    filter_.limit = INT64_MAX;
    filter_.after_row = seen_row;
  }

  // A log that is locked, or away for a moment because it is being replaced, is asked again later.
  Status look() {
    const auto last = last_request_row(path_);
    if (!last) return is_passing(last.error()) ? Status() : std::unexpected(last.error());
    if (*last < filter_.after_row) filter_.after_row = 0;  // another file has taken its place
    if (*last == filter_.after_row) return {};
    filter_.until_row = *last;
    const auto rows = query_requests(path_, filter_);
    if (!rows) return is_passing(rows.error()) ? Status() : std::unexpected(rows.error());
    print_rows(*rows, json_);
    filter_.after_row = *last;
    return {};
  }

 private:
  static bool is_passing(const Error& error) {
    return error.kind == ErrorKind::kUnavailable || error.kind == ErrorKind::kNotFound;
  }

  std::string path_;
  RequestFilter filter_;
  bool json_;
};

Status follow(Follower& follower) {
  constexpr int64_t kPeriodMs = 250;
  Loop loop;
  Status status;
  Timer timer(loop, [&] {
    status = follower.look();
    if (!status) loop.stop();
  });
  const SignalWatcher signals(loop, {SIGINT, SIGTERM}, [&](int) { loop.stop(); });
  timer.start(0, kPeriodMs);
  loop.run();
  return status;
}

int failure(const Error& error) {
  print_error(error);
  return error.kind == ErrorKind::kNotFound ? kExitUnavailable : kExitFailure;
}

RequestFilter filter_of(const LogsOptions& options) {
  RequestFilter filter;
  filter.model = options.model;
  filter.id = options.id;
  filter.key_name = options.key_name;
  if (options.failed_only) filter.status_min = 400;
  if (options.last_minutes > 0)
    filter.since_ms = SystemClock().unix_ms() - static_cast<int64_t>(options.last_minutes * 60'000);
  return filter;
}

}  // namespace

int export_command(const Config& config, const LogsOptions& filter, const ExportOptions& options) {
  if (const auto last = last_request_row(config.log_path); !last) return failure(last.error());
  const bool csv = options.format == "csv";
  std::FILE* out = options.output.empty() ? stdout : std::fopen(options.output.c_str(), "wb");
  const auto close = [&] { return out == stdout ? std::fflush(out) : std::fclose(out); };
  const auto cannot_write = [&] {
    return failure(
        {ErrorKind::kIo,
         fmt::format("cannot write {}: {}", options.output.empty() ? "the output" : options.output,
                     std::error_code(errno, std::generic_category()).message()),
         "", ""});
  };
  if (out == nullptr) return cannot_write();
  const auto put = [out](const std::string& text) -> Status {
    if (std::fwrite(text.data(), 1, text.size(), out) == text.size()) return {};
    return fail(ErrorKind::kResourceExhausted, "write");
  };
  RequestFilter all = filter_of(filter);
  all.limit = INT64_MAX;
  const Status head = csv ? put(log_csv_head()) : Status();
  const Status done =
      head ? for_each_request(config.log_path, all,
                              [&](const RequestRow& row) {
                                return put(csv ? log_row_csv(row) : log_row_json(row) + "\n");
                              })
           : head;
  const bool broken = std::ferror(out) != 0;
  if (close() != 0 || broken) return cannot_write();
  return done ? kExitOk : failure(done.error());
}

int logs_command(const Config& config, const LogsOptions& options) {
  RequestFilter filter = filter_of(options);
  filter.limit = options.limit;
  const auto last = last_request_row(config.log_path);
  if (!last) return failure(last.error());
  filter.until_row = *last;
  const auto rows = query_requests(config.log_path, filter);
  if (!rows) return failure(rows.error());
  if (!options.json) print_titles();
  print_rows(*rows, options.json);
  if (!options.follow) return kExitOk;
  Follower follower(config.log_path, filter, *last, options.json);
  if (const Status followed = follow(follower); !followed) return failure(followed.error());
  return kExitOk;
}

}  // namespace hs
