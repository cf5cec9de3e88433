#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <span>
#include <string>

namespace hs {
namespace {

std::atomic<LogLevel> level_limit{LogLevel::kInfo};

}  // namespace

void set_log_level(LogLevel level) {
  level_limit = level;
}

bool log_enabled(LogLevel level) {
  return level <= level_limit.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view text) {
  // systemd sets JOURNAL_STREAM when stderr is the journal, which reads a leading "<priority>".
  static const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
  std::string line;
  if (journal) {
    line = fmt::format("<{}>{}\n", static_cast<int>(level), text);
  } else {
    const char* name = level == LogLevel::kError     ? "error"
                       : level == LogLevel::kWarning ? "warning"
                       : level == LogLevel::kInfo    ? "info"
                                                     : "debug";
    line = fmt::format("heteroserve {}: {}\n", name, text);
  }
  // Names that clients chose end up here: nothing in them may begin a line of its own.
  for (char& c : std::span(line).first(line.size() - 1))
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  // One write a line keeps lines of several threads apart.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace hs
