// Diagnostics on stderr, one line an event; under systemd each line carries a journald priority.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace hs {

enum class LogLevel { kDebug = 7, kInfo = 6, kWarning = 4, kError = 3 };  // journald priorities

// Lines less urgent than this are dropped. Set once at start. Safe from any thread.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace hs
