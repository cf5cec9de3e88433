#include "api/json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <iterator>

namespace hs {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_continuation(char c) {
  return (static_cast<uint8_t>(c) & 0xC0) == 0x80;
}

// Plain characters can be copied as they are.
bool is_plain(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
  }
}

}  // namespace

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return 1;
  const size_t length = first < 0xC2   ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if (!is_continuation(text[i])) return 0;
  const auto second = static_cast<uint8_t>(text[1]);
  if (first == 0xE0 && second < 0xA0) return 0;
  if (first == 0xED && second > 0x9F) return 0;
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second > 0x8F) return 0;
  return length;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    size_t n_plain = 0;
    while (n_plain < text.size() && is_plain(text[n_plain])) ++n_plain;
    out += text.substr(0, n_plain);
    text.remove_prefix(n_plain);
    if (text.empty()) break;
    const size_t length = utf8_length(text);
    if (length > 1)
      out += text.substr(0, length);
    else if (length == 1)
      append_escaped(out, text[0]);
    else
      out += kReplacement;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

void append_json_number(std::string& out, float value) {
  if (std::isfinite(value))
    fmt::format_to(std::back_inserter(out), "{}", value);
  else
    out += "-9999.0";
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    out += length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace hs
