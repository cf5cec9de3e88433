#include "api/chat_request.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "api/chat_messages.h"
#include "api/image_fields.h"
#include "api/json_parser.h"
#include "api/object_reader.h"
#include "api/sampling_fields.h"

namespace hs {
namespace {

using nlohmann::json;

constexpr int64_t kTopLogprobsMax = 20;

// Accepted for OpenAI's clients; nothing here depends on them.
constexpr const char* kIgnored[] = {
    "reasoning_effort",   "verbosity",
    "service_tier",       "store",
    "metadata",           "prediction",
    "prompt_cache_key",   "prompt_cache_retention",
    "moderation",         "parallel_tool_calls",
    "web_search_options", "prompt_cache_options",
    "request_id",         "user",
    "safety_identifier",
};

void read_max_tokens(ObjectReader& body, SamplingFields& sampling) {
  const auto old_name = body.integer("max_tokens", 1, INT64_MAX);
  const auto new_name = body.integer("max_completion_tokens", 1, INT64_MAX);
  const auto wanted = new_name ? new_name : old_name;
  if (wanted) sampling.max_tokens = static_cast<int32_t>(std::min<int64_t>(*wanted, INT32_MAX));
}

void read_logprobs(ObjectReader& body, SamplingFields& sampling) {
  const bool wanted = body.boolean("logprobs").value_or(false);
  const auto n_top = body.integer("top_logprobs", 0, kTopLogprobsMax);
  if (n_top && !wanted && *n_top > 0)
    body.fail_field("top_logprobs", "'top_logprobs' is only allowed with 'logprobs': true.");
  if (wanted) sampling.n_logprobs = static_cast<int32_t>(n_top.value_or(0));
}

void read_response_format(ObjectReader& body) {
  const json* format = body.any("response_format");
  if (format == nullptr) return;
  const auto type = format->is_object() ? format->find("type") : format->end();
  if (!format->is_object() || type == format->end() || !type->is_string())
    return body.fail_field("response_format", "'response_format' must be an object with a type.");
  const std::string& name = type->get_ref<const std::string&>();
  if (name == "json_object" || name == "json_schema")
    body.fail_field("response_format",
                    "'response_format' of type json_object or json_schema is not "
                    "supported yet.",
                    ErrorKind::kUnsupported, "unsupported_parameter");
  else if (name != "text")
    body.fail_field("response_format",
                    "'response_format.type' must be text, json_object or json_schema.");
}

void read_tools(ObjectReader& body) {
  const json* tools = body.any("tools");
  const json* choice = body.any("tool_choice");
  const bool choice_is_none = choice != nullptr && *choice == "none";
  if (tools != nullptr && !tools->is_array())
    body.fail_field("tools", "'tools' must be a list.", ErrorKind::kInvalidArgument,
                    "invalid_type");
  else if (tools != nullptr && !tools->empty() && !choice_is_none)
    body.fail_field("tools", "'tools' are not supported yet.", ErrorKind::kUnsupported,
                    "unsupported_parameter");
  if (choice != nullptr && !choice_is_none && *choice != "auto")
    body.fail_field("tool_choice",
                    "'tool_choice' must be none or auto: tools are not supported yet.",
                    ErrorKind::kUnsupported, "unsupported_parameter");
  if (body.any("functions") != nullptr)
    body.fail_field("functions", "'functions' is deprecated and not supported; use 'tools'.",
                    ErrorKind::kUnsupported, "unsupported_parameter");
  if (body.any("function_call") != nullptr)
    body.fail_field("function_call",
                    "'function_call' is deprecated and not supported; use 'tool_choice'.",
                    ErrorKind::kUnsupported, "unsupported_parameter");
}

void read_modalities(ObjectReader& body) {
  const json* modalities = body.any("modalities");
  if (modalities == nullptr) return;
  if (!modalities->is_array() ||
      std::ranges::any_of(*modalities, [](const json& m) { return m != "text"; }))
    body.fail_field("modalities", "'modalities' may only ask for text.", ErrorKind::kUnsupported,
                    "unsupported_parameter");
}

}  // namespace

Status parse_chat_request(std::string_view body, const RequestLimits& limits,
                          ChatRequest& request) {
  const Result<json> parsed = parse_json(body);
  if (!parsed) return std::unexpected(parsed.error());
  return read_chat_request(*parsed, limits, request);
}

Status read_chat_request(const json& value, const RequestLimits& limits, ChatRequest& request) {
  if (!value.is_object())
    return fail(ErrorKind::kInvalidArgument, "The body must be a JSON object.", "invalid_type");
  ObjectReader body(value, "");
  if (const std::string* model = body.string("model"))
    request.model = *model;
  else
    body.fail_field("model", "'model' is missing.");
  read_messages(body, limits, request.input, request.images);
  read_image_options(body, request.image_options);
  request.input.add_generation_prompt = body.boolean("add_generation_prompt").value_or(true);
  read_sampling(body, limits, request.sampling);
  read_max_tokens(body, request.sampling);
  read_logprobs(body, request.sampling);
  read_stream(body, request.stream);
  read_response_format(body);
  read_tools(body);
  read_modalities(body);
  refuse_unsupported(body);
  request.timings = body.boolean("timings").value_or(false);
  for (const char* name : kIgnored) body.any(name);
  if (body.failed()) return body.status();
  request.unknown_fields = body.unknown();
  return {};
}

}  // namespace hs
