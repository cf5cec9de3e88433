#include "http/response_head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <iterator>

namespace hs {
namespace {

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::ranges::equal(
      text, lower, [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

bool is_servers_own(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kServerSet = {
      "content-length", "transfer-encoding", "connection", "date"};
  return std::ranges::any_of(kServerSet,
                             [&](std::string_view own) { return equals_ignoring_case(name, own); });
}

void append_value(std::string& out, std::string_view value) {
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    out += (byte < 0x20 && c != '\t') || byte == 0x7f ? ' ' : c;
  }
}

}  // namespace

std::string format_head(const ResponseHead& head) {
  std::string out;
  out.reserve(256);
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\nDate: {}\r\n", head.status,
                 status_reason(head.status), head.date);
  if (head.framing == BodyFraming::kLength)
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", head.body_bytes);
  if (head.framing == BodyFraming::kChunked) out += "Transfer-Encoding: chunked\r\n";
  if (!head.keep_alive)
    out += "Connection: close\r\n";
  else if (head.http10)
    out += "Connection: keep-alive\r\n";
  for (const HttpHeader& header : head.headers) {
    if (is_servers_own(header.name)) continue;
    out += header.name;
    out += ": ";
    append_value(out, header.value);
    out += "\r\n";
  }
  out += "\r\n";
  return out;
}

std::string format_chunk(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + 16);
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
  out += bytes;
  out += "\r\n";
  return out;
}

std::string http_date(int64_t unix_seconds) {
  static constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed",
                                                            "Thu", "Fri", "Sat"};
  static constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::tm utc = fmt::gmtime(static_cast<std::time_t>(unix_seconds));
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<size_t>(utc.tm_wday)], utc.tm_mday,
                     kMonths[static_cast<size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

std::string_view status_reason(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Other";
  }
}

bool status_has_body(int status) {
  return status >= 200 && status != 204 && status != 304;
}

}  // namespace hs
