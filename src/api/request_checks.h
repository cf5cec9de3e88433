// What can be said about a request from its head alone.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "http/handler.h"

namespace hs {

// Whether a Host header names this machine itself: localhost, 127.0.0.1 or [::1] with any port. A
// page that an attacker's name resolves to loopback (DNS rebinding) sends that name instead.
bool is_loopback_host(std::string_view host);

// Bodies are JSON and say so. Everything else is refused, also a body without a type: an HTML form
// or a script can send those from a foreign page without asking first (the CORS protocol's simple
// requests), and so put this server to work.
bool is_json_content_type(std::string_view content_type);

// A client's own X-Request-Id, if it is safe to repeat in logs and headers; "" otherwise.
std::string_view usable_request_id(std::string_view id);

// "a%2fb" -> "a/b"; kInvalidArgument for cut or non-hexadecimal escapes.
Result<std::string> percent_decoded(std::string_view text);

}  // namespace hs
