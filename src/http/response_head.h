// The bytes around a response's body: status line, headers, chunk framing.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/handler.h"

namespace hs {

enum class BodyFraming {
  kNone,       // no body and no length: 1xx, 204, 304
  kLength,     // Content-Length
  kChunked,    // Transfer-Encoding: chunked
  kUntilClose  // HTTP/1.0 streams: the end of the connection is the end of the body
};

struct ResponseHead {
  int status = 200;
  BodyFraming framing = BodyFraming::kLength;
  size_t body_bytes = 0;  // for kLength
  bool keep_alive = true;
  bool http10 = false;    // the client's version: keep-alive must then be said
  std::string_view date;  // as http_date() makes it
  std::span<const HttpHeader> headers;
};

// Content-Length, Transfer-Encoding, Connection and Date among head.headers are ignored: the server
// sets them. Control characters in values become spaces, so that no value can end its line.
std::string format_head(const ResponseHead& head);

// One chunk of a chunked body; bytes must not be empty.
std::string format_chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// RFC 9110's date form: "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date(int64_t unix_seconds);

std::string_view status_reason(int status);
// Whether a response of this status has a body at all.
bool status_has_body(int status);

}  // namespace hs
