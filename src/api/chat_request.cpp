#include "api/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "api/chat_messages.h"
#include "api/format_fields.h"
#include "api/image_fields.h"
#include "api/json_parser.h"
#include "api/object_reader.h"
#include "api/sampling_fields.h"

namespace hs {
namespace {

using nlohmann::json;

constexpr int64_t kTopLogprobsMax = 20;

void read_max_tokens(ObjectReader& body, SamplingFields& sampling) {
  const auto old_name = read_count(body, "max_tokens", 1);
  const auto new_name = read_count(body, "max_completion_tokens", 1);
  sampling.max_tokens = new_name ? new_name : old_name;
}

void read_logprobs(ObjectReader& body, SamplingFields& sampling) {
  const bool wanted = body.boolean("logprobs").value_or(false);
  const auto n_top = body.integer("top_logprobs", 0, kTopLogprobsMax);
  if (n_top && !wanted && *n_top > 0)
    body.fail_field("top_logprobs", "'top_logprobs' is only allowed with 'logprobs': true.");
  if (wanted) sampling.n_logprobs = static_cast<int32_t>(n_top.value_or(0));
}

void refuse_functions(ObjectReader& body) {
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

void read_continuation(ObjectReader& body, ChatInput& input) {
  const auto add_prompt = body.boolean("add_generation_prompt");
  input.continue_final_message = body.boolean("continue_final_message").value_or(false);
  input.add_generation_prompt = add_prompt.value_or(!input.continue_final_message);
  if (!input.continue_final_message) return;
  if (input.add_generation_prompt)
    return body.fail_field("continue_final_message",
                           "'continue_final_message' and 'add_generation_prompt' exclude each "
                           "other.");
  const bool has_text = !input.messages.empty() && !input.messages.back().parts.empty() &&
                        input.messages.back().parts.back().kind == ChatPart::Kind::kText &&
                        !input.messages.back().parts.back().text.empty();
  if (!has_text && !body.failed())
    body.fail_field("continue_final_message",
                    "'continue_final_message' needs a last message that ends in text.");
}

// Variables of the template; its own names cannot be set.
void read_template_kwargs(ObjectReader& body, ChatInput& input) {
  const json* kwargs = body.any("chat_template_kwargs");
  if (kwargs == nullptr) return;
  if (!kwargs->is_object())
    return body.fail_field("chat_template_kwargs", "'chat_template_kwargs' must be an object.",
                           ErrorKind::kInvalidArgument, "invalid_type");
  for (const char* name : {"messages", "tools", "add_generation_prompt", "continue_final_message",
                           "bos_token", "eos_token", "chat_template", "tokenize"})
    if (kwargs->contains(name))
      return body.fail_field("chat_template_kwargs",
                             fmt::format("'chat_template_kwargs' must not set '{}'.", name));
  if (!kwargs->empty())
    input.template_kwargs_json = kwargs->dump(-1, ' ', false, json::error_handler_t::replace);
}

// What completions have and a chat has not.
void read_chat_only(ObjectReader& body) {
  const json* store = body.any("store");  // nothing is ever stored: true asks in vain, harmlessly
  if (store != nullptr && !store->is_boolean())
    body.fail_field("store", "'store' must be true or false.", ErrorKind::kInvalidArgument,
                    "invalid_type");
  for (const char* name : {"echo", "best_of"}) {
    const json* value = body.any(name);
    if (value != nullptr && *value != false && *value != 1)
      body.fail_field(name, fmt::format("'{}' is for POST /v1/completions.", name),
                      ErrorKind::kUnsupported, "unsupported_parameter");
  }
}

}  // namespace

void read_chat_prompt(ObjectReader& body, std::string_view text, const RequestLimits& limits,
                      ChatRequest& request) {
  read_messages(body, limits, request.input, request.images);
  read_tools(body, text, ToolShape::kChat, request.tools);
  request.input.tools_json = tools_for_template(request.tools);
  read_image_options(body, request.image_options);
  read_continuation(body, request.input);
  read_template_kwargs(body, request.input);
}

Status parse_chat_request(std::string_view body, const RequestLimits& limits,
                          ChatRequest& request) {
  const Result<json> parsed = parse_json(body);
  if (!parsed) return std::unexpected(parsed.error());
  return read_chat_request(*parsed, body, limits, request);
}

Status read_chat_request(const json& value, std::string_view text, const RequestLimits& limits,
                         ChatRequest& request) {
  if (!value.is_object())
    return fail(ErrorKind::kInvalidArgument, "The body must be a JSON object.", "invalid_type");
  ObjectReader body(value, "");
  read_labels(body, request.labels);
  read_chat_prompt(body, text, limits, request);
  read_sampling(body, limits, request.sampling);
  read_max_tokens(body, request.sampling);
  read_logprobs(body, request.sampling);
  read_stream(body, request.stream);
  read_response_format(body, text, request.sampling.form);
  read_structured_outputs(body, text, request.sampling.form);
  refuse_functions(body);
  read_modalities(body);
  refuse_unsupported(body);
  read_chat_only(body);
  accept_ignored(body);
  if (body.failed()) return body.status();
  request.labels.unknown_fields = body.unknown();
  return {};
}

}  // namespace hs
