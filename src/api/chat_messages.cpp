#include "api/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "api/message_parts.h"
#include "api/tool_messages.h"

namespace hs {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 4> kContentRoles = {"system", "user", "assistant", "tool"};
bool may_hold_images(std::string_view role) {
  return role == "user" || role == "tool";
}

class MessageReader {
 public:
  MessageReader(std::string place, ChatMessage& message, std::vector<ImageSource>& images)
      : place_(std::move(place)), message_(message), images_(images) {}

  Status read(const json& value) {
    if (!value.is_object())
      return fail(ErrorKind::kInvalidArgument, fmt::format("'{}' must be an object.", place_),
                  "invalid_type", place_);
    ObjectReader fields(value, place_);
    read_role(fields);
    refuse_deprecated(fields);
    read_names(fields);
    read_tool_calls(fields);
    if (!fields.failed()) read_content(fields, value);
    return fields.status();
  }

 private:
  void read_role(ObjectReader& fields) {
    const std::string* role = fields.string("role");
    if (role == nullptr)
      return fields.fail_field("role", fmt::format("'{}.role' is missing.", place_));
    message_.role = *role == "developer" ? "system" : *role;
    if (*role == "function")
      fields.fail_field("role", "The role 'function' is deprecated; use 'tool'.",
                        ErrorKind::kUnsupported, "unsupported_value");
    else if (std::ranges::find(kContentRoles, message_.role) == kContentRoles.end())
      fields.fail_field("role",
                        fmt::format("'{}.role' is '{}'; it must be developer, system, user, "
                                    "assistant or tool.",
                                    place_, shown_word(*role)));
  }

  static void refuse_deprecated(ObjectReader& fields) {
    for (const char* name : {"function_call", "audio"}) {
      const json* value = fields.any(name);
      if (value != nullptr && !value->empty())
        fields.fail_field(name, fmt::format("'{}' is not supported.", fields.param(name)),
                          ErrorKind::kUnsupported, "unsupported_parameter");
    }
  }

  void read_names(ObjectReader& fields) {
    if (const std::string* name = fields.string("name")) message_.name = *name;
    const std::string* id = fields.string("tool_call_id");
    if (id != nullptr && message_.role == "tool") message_.tool_call_id = *id;
  }

  // Calls that an assistant made earlier, in a conversation that the client brings along.
  void read_tool_calls(ObjectReader& fields) {
    const json* calls = fields.any("tool_calls");
    if (calls == nullptr || (calls->is_array() && calls->empty())) return;
    if (!calls->is_array() || message_.role != "assistant")
      return fields.fail_field("tool_calls",
                               fmt::format("'{}' must be a list, in an assistant's message.",
                                           fields.param("tool_calls")));
    for (size_t i = 0; i < calls->size() && !fields.failed(); ++i) {
      const auto call = read_tool_call((*calls)[i], fmt::format("{}.tool_calls[{}]", place_, i));
      if (!call) fields.fail_with(call.error());
    }
  }

  Status read_tool_call(const json& value, const std::string& place) {
    if (!value.is_object())
      return fail(ErrorKind::kInvalidArgument, fmt::format("'{}' must be an object.", place),
                  "invalid_type", place);
    ObjectReader call(value, place);
    const std::string* id = call.string("id");
    const std::string* type = call.string("type");
    if (type != nullptr && *type != "function")
      call.fail_field(
          "type",
          fmt::format("'{}.type' is '{}'; only functions are supported.", place, shown_word(*type)),
          ErrorKind::kUnsupported, "unsupported_value");
    const json* function = call.any("function");
    if (function == nullptr || !function->is_object()) {
      call.fail_field("function", fmt::format("'{}.function' is missing.", place));
      return call.status();
    }
    ObjectReader fields(*function, place + ".function");
    const std::string* name = fields.string("name");
    const std::string* arguments = fields.string("arguments");
    if (name == nullptr)
      fields.fail_field("name", fmt::format("'{}' is missing.", fields.param("name")));
    if (fields.failed()) return fields.status();
    if (call.failed()) return call.status();
    add_tool_call(message_, id == nullptr ? "" : *id, *name,
                  arguments == nullptr ? "{}" : *arguments);
    return {};
  }

  void read_content(ObjectReader& fields, const json& value) {
    const json* content = fields.any("content");
    if (content == nullptr) {
      // An assistant's turn without text is what a client replays after an empty answer.
      message_.content_is_string = true;
      const bool may_lack = value.contains("content") || !message_.tool_calls_json.empty();
      if (message_.role != "assistant" || !may_lack)
        fields.fail_field("content", fmt::format("'{}.content' is missing.", place_));
      else
        message_.parts.push_back({ChatPart::Kind::kText, ""});
    } else if (content->is_string()) {
      message_.content_is_string = true;
      message_.parts.push_back({ChatPart::Kind::kText, content->get<std::string>()});
    } else if (content->is_array() && !content->empty()) {
      for (size_t i = 0; i < content->size() && !fields.failed(); ++i) {
        const Status read = read_part((*content)[i], fmt::format("{}.content[{}]", place_, i));
        if (!read) fields.fail_with(read.error());
      }
    } else {
      fields.fail_field("content",
                        fmt::format("'{}.content' must be a string or a list of parts with at "
                                    "least one part.",
                                    place_));
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
    else if (*type == "text")
      read_text_part(part, "text", message_);
    else if (*type == "refusal" && message_.role == "assistant")
      read_text_part(part, "refusal", message_);
    else if (*type == "image_url")
      read_image(part);
    else
      part.fail_field("type",
                      fmt::format("Parts of type '{}' are not supported; use text or image_url.",
                                  shown_word(*type)),
                      ErrorKind::kUnsupported, "unsupported_value");
    return part.status();
  }

  void read_image(ObjectReader& part) {
    if (!may_hold_images(message_.role)) return refuse_picture(part, message_.role);
    const json* value = part.any("image_url");
    ImageSource source;
    source.param = part.param("image_url");
    if (value != nullptr && value->is_string()) {
      source.url = value->get<std::string>();
    } else if (value != nullptr && value->is_object()) {
      ObjectReader image(*value, source.param);
      const std::string* url = image.string("url");
      source.low_detail = read_low_detail(image);
      if (url == nullptr)
        image.fail_field("url", fmt::format("'{}' is missing.", image.param("url")));
      if (image.failed()) return part.fail_with(image.status().error());
      source.url = *url;
    } else {
      return part.fail_field("image_url",
                             fmt::format("'{}' must be an object with a url.", source.param));
    }
    images_.push_back(std::move(source));
    message_.parts.push_back({ChatPart::Kind::kImage, ""});
  }

  std::string place_;
  ChatMessage& message_;
  std::vector<ImageSource>& images_;
};

}  // namespace

void read_messages(ObjectReader& body, const RequestLimits& limits, ChatInput& input,
                   std::vector<ImageSource>& images) {
  const json* messages = body.any("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty())
    return body.fail_field("messages", "'messages' must be a list with at least one message.");
  for (size_t i = 0; i < messages->size(); ++i) {
    ChatMessage message;
    const Status read =
        MessageReader(fmt::format("messages[{}]", i), message, images).read((*messages)[i]);
    if (!read) return body.fail_with(read.error());
    input.messages.push_back(std::move(message));
  }
  if (images.size() > static_cast<size_t>(limits.images_max))
    body.fail_field("messages",
                    fmt::format("This conversation has {} pictures; the server's limit is {} "
                                "(--limit-mm-per-prompt image={}, images.limit_mm_per_prompt).",
                                images.size(), limits.images_max, limits.images_max),
                    ErrorKind::kInvalidArgument, "too_many_images");
}

}  // namespace hs
