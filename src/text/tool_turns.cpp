#include "text/tool_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace hs {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBefore =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
    "provided with function signatures within <tools></tools> XML tags:\n<tools>";
constexpr std::string_view kAfter =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
    "\"arguments\": <args-json-object>}\n</tool_call>";

std::string dumped(const Json& json) {
  return spaced_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Text of this server: control tokens are recognised in it.
void add_own(ChatPart& part, std::string_view text) {
  part.own.push_back({part.text.size(), part.text.size() + text.size()});
  part.text += text;
}

// The text part at the end of a message, for more text.
ChatPart& last_text(ChatMessage& message) {
  if (message.parts.empty() || message.parts.back().kind != ChatPart::Kind::kText)
    message.parts.push_back({ChatPart::Kind::kText, "", {}});
  return message.parts.back();
}

Result<Json> parsed(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_array())
    return fail(ErrorKind::kInvalidArgument, "chat template: broken JSON from the request");
  return json;
}

Result<ChatPart> description(const std::string& tools_json) {
  const Result<Json> tools = parsed(tools_json);
  if (!tools) return std::unexpected(tools.error());
  ChatPart part;
  add_own(part, kBefore);
  for (const Json& tool : *tools) part.text += '\n' + dumped(tool);
  add_own(part, kAfter);
  return part;
}

void append_part(ChatPart& to, const ChatPart& part) {
  for (const TextSpan& span : part.own)
    to.own.push_back({to.text.size() + span.begin, to.text.size() + span.end});
  to.text += part.text;
}

// Behind what a system turn says, or before what the user does.
void describe(std::vector<ChatMessage>& messages, const ChatPart& tools, bool takes_system) {
  if (takes_system) {
    if (messages.empty() || messages.front().role != "system") {
      ChatMessage system;
      system.role = "system";
      system.content_is_string = true;
      messages.insert(messages.begin(), std::move(system));
    }
    ChatPart& part = last_text(messages.front());
    if (!part.text.empty()) part.text += "\n\n";
    return append_part(part, tools);
  }
  const auto user = std::ranges::find(messages, "user", &ChatMessage::role);
  if (user == messages.end()) return;
  ChatPart part = tools;
  part.text += "\n\n";
  const auto text = std::ranges::find(user->parts, ChatPart::Kind::kText, &ChatPart::kind);
  if (text == user->parts.end()) {
    user->parts.insert(user->parts.begin(), std::move(part));
    return;
  }
  append_part(part, *text);
  *text = std::move(part);
}

Status write_calls(ChatMessage& message) {
  const Result<Json> calls = parsed(std::exchange(message.tool_calls_json, {}));
  if (!calls) return std::unexpected(calls.error());
  ChatPart& part = last_text(message);
  for (const Json& call : *calls) {
    const Json function = call.is_object() ? call.value("function", Json()) : Json();
    if (!function.is_object() || !function.contains("name") || !function.contains("arguments"))
      continue;
    add_own(part, part.text.empty() ? "<tool_call>" : "\n<tool_call>");
    part.text += '\n' + dumped({{"name", function["name"]}, {"arguments", function["arguments"]}});
    add_own(part, "\n</tool_call>");
  }
  return {};
}

// What a tool says, put into a user's turn.
void write_response(const ChatMessage& message, ChatMessage& turn) {
  ChatPart& begin = last_text(turn);
  add_own(begin, begin.text.empty() ? "<tool_response>\n" : "\n<tool_response>\n");
  for (size_t i = 0; i < message.parts.size(); ++i) {
    const ChatPart& part = message.parts[i];
    if (part.kind != ChatPart::Kind::kText) {
      turn.parts.push_back(part);
      continue;
    }
    if (i > 0 && message.parts[i - 1].kind == part.kind) last_text(turn).text += '\n';
    append_part(last_text(turn), part);
  }
  add_own(last_text(turn), "\n</tool_response>");
  turn.content_is_string = turn.parts.size() == 1;
}

}  // namespace

Result<std::vector<ChatMessage>> with_tools_as_text(const ChatInput& input, bool takes_system) {
  std::vector<ChatMessage> messages;
  bool answers = false;  // the last of them is a turn of tools' answers
  for (const ChatMessage& message : input.messages) {
    if (message.role == "tool") {
      if (!std::exchange(answers, true)) {
        messages.emplace_back();
        messages.back().role = "user";
      }
      write_response(message, messages.back());
      continue;
    }
    answers = false;
    messages.push_back(message);
    if (messages.back().tool_calls_json.empty()) continue;
    if (const Status written = write_calls(messages.back()); !written)
      return std::unexpected(written.error());
  }
  if (input.tools_json.empty()) return messages;
  const Result<ChatPart> tools = description(input.tools_json);
  if (!tools) return std::unexpected(tools.error());
  describe(messages, *tools, takes_system);
  return messages;
}

std::string spaced_json(std::string_view json) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    out += c;
    if (in_string && c == '\\' && i + 1 < json.size()) {
      out += json[++i];
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == ',' || c == ':')) {
      out += ' ';
    }
  }
  return out;
}

}  // namespace hs
