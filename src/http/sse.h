// Server-sent events, as the HTML standard frames them.
#pragma once

#include <string>
#include <string_view>

namespace hs {

inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";

// "data: ...\n\n"; data of several lines becomes several data lines.
inline std::string sse_event(std::string_view data) {
  std::string out;
  out.reserve(data.size() + 16);
  while (true) {
    const size_t end = data.find('\n');
    out += "data: ";
    out += data.substr(0, end);
    out += '\n';
    if (end == std::string_view::npos) break;
    data.remove_prefix(end + 1);
  }
  out += '\n';
  return out;
}

// A line that clients skip; keeps proxies from closing a stream that is silent for long.
inline std::string sse_comment(std::string_view one_line) {
  std::string out(": ");
  out += one_line;
  out += "\n\n";
  return out;
}

}  // namespace hs
