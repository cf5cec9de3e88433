#include "api/errors.h"

#include "api/json_writer.h"

namespace hs {
namespace {

struct ByCode {
  std::string_view code;
  int status;
};
constexpr ByCode kByCode[] = {
    {"admin_key_needed", 403},
    {"already_queued", 409},
    {"auth", 403},  // at the hub: trying again changes nothing
    {"bad_listing", 502},
    {"cancelled_by_admin", 403},  // a status that clients do
                                  // not try again after
    {"checksum", 502},
    {"concurrency_limit_exceeded", 429},
    {"host_not_allowed", 403},
    {"invalid_api_key", 401},
    {"key_exists", 409},
    {"method_not_allowed", 405},
    {"model_busy", 409},
    {"model_changing", 409},
    {"model_in_use", 409},
    {"no_model_loaded", 409},
    {"no_space", 507},
    {"rate_limit_exceeded", 429},
    {"request_too_large", 413},
    {"unsupported_media_type", 415},
};

constexpr ByCode kProtocolCodes[] = {
    {"request_timeout", 408},    {"request_too_large", 413}, {"uri_too_long", 414},
    {"expectation_failed", 417}, {"headers_too_large", 431}, {"engine_error", 500},
    {"not_implemented", 501},    {"overloaded", 503},        {"http_version_not_supported", 505},
};

int status_of_kind(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kTooLarge:
    case ErrorKind::kUnsupported:
      return 400;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kResourceExhausted:
    case ErrorKind::kUnavailable:
    case ErrorKind::kCancelled:
      return 503;
    case ErrorKind::kDataLoss:
    case ErrorKind::kIo:
    case ErrorKind::kInternal:
      return 500;
  }
  return 500;
}

std::string_view type_of_status(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

std::string_view default_code(int status) {
  if (status == 503) return "unavailable";
  return status >= 500 ? "engine_error" : "";
}

void append_string_or_null(std::string& out, std::string_view text) {
  if (text.empty())
    out += "null";
  else
    append_json_string(out, text);
}

}  // namespace

int http_status(const Error& error) {
  for (const ByCode& entry : kByCode)
    if (error.code == entry.code) return entry.status;
  return status_of_kind(error.kind);
}

std::string_view protocol_error_code(int status) {
  for (const ByCode& entry : kProtocolCodes)
    if (entry.status == status) return entry.code;
  return "bad_request";
}

std::string error_json(const Error& error) {
  return error_json(http_status(error), error);
}

std::string error_json(int status, const Error& error) {
  const bool hide = status == 500;
  std::string out = "{\"error\":{\"message\":";
  append_json_string(out, hide ? "The server failed to answer this request." : error.message);
  out += ",\"type\":";
  append_json_string(out, type_of_status(status));
  out += ",\"param\":";
  append_string_or_null(out, error.param);
  out += ",\"code\":";
  append_string_or_null(out, error.code.empty() ? default_code(status) : error.code);
  out += "}}";
  return out;
}

Error queue_full() {
  return {ErrorKind::kResourceExhausted, "Too many requests are waiting; try again shortly.",
          "queue_full", ""};
}

HttpResponse error_response(const Error& error) {
  return error_response(http_status(error), error);
}

HttpResponse error_response(int status, const Error& error) {
  HttpResponse response = json_response(status, error_json(status, error));
  if (status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

HttpResponse json_response(int status, std::string body) {
  return {status, {{"Content-Type", "application/json"}}, std::move(body)};
}

}  // namespace hs
