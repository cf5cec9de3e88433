// Errors as clients see them: an HTTP status and OpenAI's error object with all four fields.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "http/handler.h"

namespace hs {

// The status of the fixed table in errors.cpp: by code where one decides, otherwise by kind.
int http_status(const Error& error);

// The code of an error that the HTTP server itself answers.
std::string_view protocol_error_code(int status);

// {"error":{"message":...,"type":...,"param":...,"code":...}}. What went wrong inside the server is
// told in fixed words; the caller logs the detail.
std::string error_json(const Error& error);
std::string error_json(int status, const Error& error);

// No worker or no memory for one more request now: 503.
Error queue_full();

// The whole answer, with Retry-After where trying again makes sense.
HttpResponse error_response(const Error& error);
HttpResponse error_response(int status, const Error& error);

HttpResponse json_response(int status, std::string body);

}  // namespace hs
