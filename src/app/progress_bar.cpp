#include "app/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace hs {
namespace {

constexpr int64_t kDrawUs = 100'000;
constexpr int64_t kLineUs = 10'000'000;
constexpr int kCells = 24;

}  // namespace

ProgressBar::~ProgressBar() {
  if (line_open_) fmt::print(stderr, "\n");
}

std::string ProgressBar::text(std::string_view label, int64_t done, int64_t total) {
  const int64_t now_us = clock_.now_us();
  // A new beginning where bytes went back, as after a damaged file.
  if (begin_us_ == 0 || done < begin_done_) {
    begin_us_ = now_us;
    begin_done_ = done;
  }
  const double seconds = static_cast<double>(now_us - begin_us_) * 1e-6;
  const double rate = seconds > 0.5 ? static_cast<double>(done - begin_done_) / seconds : 0;
  const int64_t percent = total > 0 ? done * 100 / total : 100;
  std::string out = fmt::format("{:3} %  {} of {}", percent, size_text(done), size_text(total));
  if (rate > 1)
    out +=
        fmt::format("  {}/s  {} left", size_text(static_cast<int64_t>(rate)),
                    duration_text(static_cast<int64_t>(static_cast<double>(total - done) / rate)));
  if (on_terminal_) {
    const auto filled = static_cast<int>(percent * kCells / 100);
    out = fmt::format("[{:=<{}}{:<{}}] {}", "", filled, "", kCells - filled, out);
  }
  return label.empty() ? out : fmt::format("{}  {}", out, label);
}

void ProgressBar::show(std::string_view label, int64_t done, int64_t total) {
  const int64_t now_us = clock_.now_us();
  const bool first = shown_us_ == 0;
  const bool last = done >= total;
  if (!first && !last && now_us - shown_us_ < (on_terminal_ ? kDrawUs : kLineUs)) return;
  if (last && !first && !on_terminal_ && now_us - shown_us_ < kDrawUs) return;
  const std::string line = text(label, done, total);
  shown_us_ = now_us;
  if (on_terminal_) {
    fmt::print(stderr, "\r{}\x1b[K", line);
    line_open_ = true;
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
}

std::string size_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  while (size >= 999.95 && unit + 1 < std::size(kUnits)) {
    size /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", size, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string duration_text(int64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} min", seconds / 3600, seconds / 60 % 60);
}

}  // namespace hs
