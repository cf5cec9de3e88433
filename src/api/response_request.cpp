#include "api/response_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/image_fields.h"
#include "api/json_parser.h"
#include "api/message_parts.h"
#include "api/object_reader.h"
#include "api/tool_messages.h"

namespace hs {
namespace {

using nlohmann::json;

constexpr int64_t kTopLogprobsMax = 20;

void refuse(ObjectReader& object, std::string_view name, std::string_view why) {
  object.fail_field(name, fmt::format("'{}' {}", object.param(name), why), ErrorKind::kUnsupported,
                    "unsupported_parameter");
}

// One item of `input`: a message, a call that the model made, or what came of it.
class ItemReader {
 public:
  ItemReader(std::string place, ChatMessage& message, std::vector<ImageSource>& images)
      : place_(std::move(place)), message_(message), images_(images) {}

  Status read(const json& value) {
    if (!value.is_object())
      return fail(ErrorKind::kInvalidArgument, fmt::format("'{}' must be an object.", place_),
                  "invalid_type", place_);
    ObjectReader item(value, place_);
    const std::string* type = item.string("type");
    if (type == nullptr || *type == "message") {
      read_role(item);
      if (!item.failed()) read_content(item, "content");
    } else if (*type == "function_call") {
      read_call(item);
    } else if (*type == "function_call_output") {
      read_output(item);
    } else {
      item.fail_field("type",
                      fmt::format("Items of type '{}' are not supported; use message, "
                                  "function_call and function_call_output.",
                                  shown_word(*type)),
                      ErrorKind::kUnsupported, "unsupported_value");
    }
    return item.status();
  }

 private:
  static const std::string& needed(ObjectReader& item, std::string_view field) {
    static const std::string kNone;
    const std::string* value = item.string(field);
    if (value == nullptr)
      item.fail_field(field, fmt::format("'{}' is missing.", item.param(field)));
    return value == nullptr ? kNone : *value;
  }

  void read_call(ObjectReader& item) {
    message_.role = "assistant";
    message_.content_is_string = true;
    message_.parts.push_back({ChatPart::Kind::kText, ""});
    const std::string& id = needed(item, "call_id");
    const std::string& name = needed(item, "name");
    add_tool_call(message_, id, name, needed(item, "arguments"));
  }

  void read_output(ObjectReader& item) {
    message_.role = "tool";
    message_.tool_call_id = needed(item, "call_id");
    if (!item.failed()) read_content(item, "output");
  }

  void read_role(ObjectReader& item) {
    const std::string* role = item.string("role");
    if (role == nullptr)
      return item.fail_field("role", fmt::format("'{}' is missing.", item.param("role")));
    message_.role = *role == "developer" ? "system" : *role;
    if (message_.role != "system" && message_.role != "user" && message_.role != "assistant")
      item.fail_field("role", fmt::format("'{}' is '{}'; it must be developer, system, user or "
                                          "assistant.",
                                          item.param("role"), shown_word(*role)));
  }

  void read_content(ObjectReader& item, const char* field) {
    const json* content = item.any(field);
    if (content != nullptr && content->is_string()) {
      message_.content_is_string = true;
      message_.parts.push_back({ChatPart::Kind::kText, content->get<std::string>()});
      return;
    }
    if (content == nullptr || !content->is_array() || content->empty())
      return item.fail_field(field, fmt::format("'{}' must be a string or a list of parts with at "
                                                "least one part.",
                                                item.param(field)));
    for (size_t i = 0; i < content->size() && !item.failed(); ++i) {
      const Status read = read_part((*content)[i], fmt::format("{}.{}[{}]", place_, field, i));
      if (!read) item.fail_with(read.error());
    }
  }

  Status read_part(const json& value, const std::string& place) {
    if (!value.is_object())
      return fail(ErrorKind::kInvalidArgument, fmt::format("'{}' must be an object.", place),
                  "invalid_type", place);
    ObjectReader part(value, place);
    const std::string* type = part.string("type");
    if (type == nullptr)
      part.fail_field("type", fmt::format("'{}.type' is missing.", place));
    else if (*type == "input_text" || *type == "output_text" || *type == "text")
      read_text_part(part, "text", message_);
    else if (*type == "refusal")
      read_text_part(part, "refusal", message_);
    else if (*type == "input_image")
      read_image(part);
    else
      part.fail_field("type",
                      fmt::format("Parts of type '{}' are not supported; use input_text or "
                                  "input_image.",
                                  shown_word(*type)),
                      ErrorKind::kUnsupported, "unsupported_value");
    return part.status();
  }

  void read_image(ObjectReader& part) {
    if (message_.role != "user" && message_.role != "tool")
      return refuse_picture(part, message_.role);
    if (part.any("file_id") != nullptr)
      return refuse(part, "file_id",
                    "is not supported: this server keeps no files; use image_url.");
    const std::string* url = part.string("image_url");
    if (url == nullptr)
      return part.fail_field("image_url", fmt::format("'{}' is missing.", part.param("image_url")));
    const bool low_detail = read_low_detail(part);
    if (part.failed()) return;
    images_.push_back({.url = *url, .param = part.param("image_url"), .low_detail = low_detail});
    message_.parts.push_back({ChatPart::Kind::kImage, ""});
  }

  std::string place_;
  ChatMessage& message_;
  std::vector<ImageSource>& images_;
};

// A turn's text and its calls are items of their own here, and one message for the template.
void add_message(ChatMessage message, std::vector<ChatMessage>& messages) {
  if (message.tool_calls_json.empty() || messages.empty() || messages.back().role != "assistant") {
    messages.push_back(std::move(message));
    return;
  }
  std::string& calls = messages.back().tool_calls_json;
  if (calls.empty()) {
    calls = std::move(message.tool_calls_json);
  } else {
    calls.back() = ',';
    calls += message.tool_calls_json.substr(1);
  }
}

void read_input(ObjectReader& body, const RequestLimits& limits, ChatRequest& chat) {
  const json* input = body.any("input");
  if (input != nullptr && input->is_string()) {
    ChatMessage message;
    message.role = "user";
    message.content_is_string = true;
    message.parts.push_back({ChatPart::Kind::kText, input->get<std::string>()});
    chat.input.messages.push_back(std::move(message));
    return;
  }
  if (input == nullptr || !input->is_array() || input->empty())
    return body.fail_field("input", "'input' must be a string or a list with at least one item.");
  for (size_t i = 0; i < input->size(); ++i) {
    ChatMessage message;
    const Status read =
        ItemReader(fmt::format("input[{}]", i), message, chat.images).read((*input)[i]);
    if (!read) return body.fail_with(read.error());
    add_message(std::move(message), chat.input.messages);
  }
  if (chat.images.size() > static_cast<size_t>(limits.images_max))
    body.fail_field("input",
                    fmt::format("This conversation has {} pictures; the server's limit is {} "
                                "(--limit-mm-per-prompt image={}, images.limit_mm_per_prompt).",
                                chat.images.size(), limits.images_max, limits.images_max),
                    ErrorKind::kInvalidArgument, "too_many_images");
}

// Nothing is kept from one request to the next.
void refuse_state(ObjectReader& body) {
  for (const char* name : {"previous_response_id", "conversation", "prompt"})
    if (body.any(name) != nullptr)
      refuse(body, name,
             "is not supported: this server stores nothing; send the whole conversation as input.");
  if (body.boolean("store").value_or(false))
    refuse(body, "store", "must be false: this server stores nothing.");
  if (body.boolean("background").value_or(false))
    refuse(body, "background", "must be false: this server stores nothing.");
}

void read_logprobs(ObjectReader& body, SamplingFields& sampling) {
  const json* include = body.any("include");
  bool wanted = false;
  if (include != nullptr && !include->is_array())
    body.fail_field("include", "'include' must be a list of strings.", ErrorKind::kInvalidArgument,
                    "invalid_type");
  else if (include != nullptr)
    wanted = std::ranges::find(*include, json("message.output_text.logprobs")) != include->end();
  const auto n_top = body.integer("top_logprobs", 0, kTopLogprobsMax);
  if (wanted || n_top.value_or(0) > 0)
    sampling.n_logprobs = static_cast<int32_t>(n_top.value_or(0));
}

}  // namespace

void read_response_prompt(ObjectReader& body, std::string_view text, const RequestLimits& limits,
                          ResponseRequest& request) {
  if (const std::string* instructions = body.string("instructions")) {
    request.instructions = *instructions;
    request.has_instructions = true;
    ChatMessage message;
    message.role = "system";
    message.content_is_string = true;
    message.parts.push_back({ChatPart::Kind::kText, *instructions});
    request.chat.input.messages.push_back(std::move(message));
  }
  read_input(body, limits, request.chat);
  read_image_options(body, request.chat.image_options);
  refuse_state(body);
  read_tools(body, text, ToolShape::kResponse, request.chat.tools);
  request.chat.input.tools_json = tools_for_template(request.chat.tools);
}

Status parse_response_request(std::string_view text, const RequestLimits& limits,
                              ResponseRequest& request) {
  const Result<json> parsed = parse_json(text);
  if (!parsed) return std::unexpected(parsed.error());
  if (!parsed->is_object())
    return fail(ErrorKind::kInvalidArgument, "The body must be a JSON object.", "invalid_type");
  ObjectReader body(*parsed, "");
  ChatRequest& chat = request.chat;
  read_labels(body, chat.labels);
  read_response_prompt(body, text, limits, request);
  read_sampling(body, limits, chat.sampling);
  chat.sampling.max_tokens = read_count(body, "max_output_tokens", 1);
  read_logprobs(body, chat.sampling);
  chat.stream.stream = body.boolean("stream").value_or(false);
  read_text_format(body, text, chat.sampling.form);
  if (chat.sampling.form.language)
    request.format_json = json_part_in_order(text, {"text", "format"});
  refuse_unsupported(body);
  accept_ignored(body);
  // Nothing is ever cut off, whatever truncation says.
  for (const char* name : {"reasoning", "truncation", "stream_options", "max_tool_calls"})
    body.any(name);
  if (chat.sampling.n != 1) body.fail_field("n", "'n' must be 1: a response has one answer.");
  if (body.failed()) return body.status();
  chat.labels.unknown_fields = body.unknown();
  return {};
}

ResponseShape shape_of(const ResponseRequest& request, const std::string& metadata_json) {
  const SamplingFields& sampling = request.chat.sampling;
  ResponseShape shape;
  if (request.has_instructions) shape.instructions = request.instructions;
  shape.max_output_tokens = sampling.max_tokens;
  shape.metadata_json = metadata_json.empty() ? "{}" : metadata_json;
  shape.n_logprobs = sampling.n_logprobs;
  shape.stream = request.chat.stream.stream;
  shape.format_json = request.format_json;
  shape.tools_json = tools_for_response(request.chat.tools);
  shape.tool_choice_json = request.chat.tools.choice_json;
  shape.parallel_tool_calls = request.chat.tools.parallel;
  return shape;
}

}  // namespace hs
