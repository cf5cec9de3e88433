// Addresses of outgoing requests, parsed once, so that what is judged is what is connected to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hs {

// An absolute http or https URL without user, password and fragment.
struct Url {
  std::string text;    // normalised
  std::string scheme;  // "http" or "https"
  std::string host;    // in lower case; an IPv6 address without brackets
  uint16_t port = 0;   // the scheme's own where the text names none

  bool same_origin(const Url& other) const {
    return scheme == other.scheme && host == other.host && port == other.port;
  }
};

// kInvalidArgument "invalid_url": another scheme, a user or password, or not a URL.
Result<Url> parse_url(std::string_view text);
// A Location header, absolute or relative to `base`.
Result<Url> resolve_url(const Url& base, std::string_view location);

// Bytes that may not stand in a path are percent-encoded; '/' stays.
std::string escaped_path(std::string_view path);

}  // namespace hs
