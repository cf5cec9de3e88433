#include "api/request_checks.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace hs {
namespace {

constexpr size_t kRequestIdBytesMax = 128;

char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool equals_any_case(std::string_view a, std::string_view lower) {
  return std::ranges::equal(a, lower, {}, to_lower);
}

bool is_id_character(char c) {
  const char lower = to_lower(c);
  return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.' || c == ':';
}

}  // namespace

// 127.a.b.c in digits: a name that only begins like one may resolve to anything.
static bool is_loopback_ipv4(std::string_view host) {
  return host.starts_with("127.") && std::ranges::count(host, '.') == 3 &&
         std::ranges::all_of(host, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

bool is_loopback_host(std::string_view host) {
  const size_t colon = host.rfind(':');
  const size_t bracket = host.rfind(']');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    const std::string_view port = host.substr(colon + 1);
    if (!std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; })) return false;
    host = host.substr(0, colon);
  }
  return equals_any_case(host, "localhost") || host == "[::1]" || is_loopback_ipv4(host);
}

bool is_json_content_type(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  constexpr std::string_view kSuffix = "+json";
  return equals_any_case(type, "application/json") ||
         (type.size() > kSuffix.size() &&
          equals_any_case(type.substr(type.size() - kSuffix.size()), kSuffix));
}

std::string_view usable_request_id(std::string_view id) {
  return id.size() <= kRequestIdBytesMax && std::ranges::all_of(id, is_id_character)
             ? id
             : std::string_view();
}

Result<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    uint8_t byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2)
      return fail(ErrorKind::kInvalidArgument, "The path has a broken percent escape.");
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

}  // namespace hs
