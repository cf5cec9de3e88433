#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"
#include "text/json_fields.h"
#include "text/tool_turns.h"
#include "text/unicode.h"

namespace hs {
namespace {

using jinja::Interpreter;
using jinja::None;
using jinja::Text;
using jinja::Value;

constexpr size_t kSourceBytesMax = size_t{1} << 20;
constexpr size_t kConfigBytesMax = size_t{16} << 20;
constexpr int64_t kProbeWorkMax =
    300'000;  // a chat of two short messages needs a few hundred steps
constexpr std::string_view kProbe = "hs-content-probe";
constexpr std::string_view kToolProbe =
    R"([{"type":"function","function":{"name":"hs-tool-probe","description":"x","parameters":)"
    R"({"type":"object","properties":{}}}}])";
constexpr std::string_view kCallProbe =
    R"([{"id":"x","type":"function","function":{"name":"hs-tool-probe","arguments":{}}}])";
constexpr std::array<std::string_view, 4> kRoles = {"system", "user", "assistant", "tool"};

// In which forms a template takes the content of a role's messages.
struct ContentForms {
  bool string = true;
  bool parts = true;
};

std::unexpected<Error> template_error(const jinja::TemplateError& error) {
  const std::string where = error.line > 0 ? fmt::format(" (line {})", error.line) : "";
  return fail(ErrorKind::kInvalidArgument,
              fmt::format("chat template: {}{}", error.message, where));
}

// `literal`: texts are a client's, in which no control token is recognised. `json` keeps the order
// of keys or sorts them.
template <typename Json>
Value from_json(Interpreter& in, const Json& json, bool literal = false, int depth = 0) {
  if (depth > 90) throw jinja::TemplateError{"the context is nested too deeply"};
  switch (json.type()) {
    case nlohmann::json::value_t::boolean:
      return Value(json.template get<bool>());
    case nlohmann::json::value_t::number_integer:
      return Value(json.template get<int64_t>());
    case nlohmann::json::value_t::number_unsigned:
      if (json.template get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
        throw jinja::TemplateError{"an integer is over 64 bits"};
      return Value(json.template get<int64_t>());
    case nlohmann::json::value_t::number_float:
      return Value(json.template get<double>());
    case nlohmann::json::value_t::string: {
      std::string valid;
      append_lossy(valid, json.template get_ref<const std::string&>());
      return in.make_text(Text(valid, literal));
    }
    case nlohmann::json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(from_json(in, item, literal, depth + 1));
      return in.make_list(std::move(items));
    }
    case nlohmann::json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      for (auto it = json.begin(); it != json.end(); ++it)
        items.emplace_back(in.make_text(Text(it.key(), literal)),
                           from_json(in, *it, literal, depth + 1));
      return in.make_dict(std::move(items));
    }
    default:
      return Value(None{});
  }
}

Value user_text(Interpreter& in, std::string_view text) {
  std::string valid;
  append_lossy(valid, text);
  return in.make_text(Text(valid, true));
}

// The spans that the server wrote are no user's.
void append_part(Text& out, const ChatPart& part) {
  const auto append = [&](size_t begin, size_t end, bool literal) {
    std::string valid;
    append_lossy(valid, std::string_view(part.text).substr(begin, end - begin));
    out.append(valid, literal);
  };
  size_t done = 0;
  for (const TextSpan& span : part.own) {
    append(done, span.begin, true);
    append(span.begin, span.end, false);
    done = span.end;
  }
  append(done, part.text.size(), true);
}

// The parser of requests has bounded the text.
Value client_value(Interpreter& in, const std::string& json) {
  const auto parsed = nlohmann::ordered_json::parse(json, nullptr, false);
  if (parsed.is_discarded()) throw jinja::TemplateError{"broken JSON from the request"};
  return from_json(in, parsed, true);
}

// The text of the last message, which the prompt is to end with.
std::string_view final_text(const ChatInput& input) {
  if (input.messages.empty() || input.messages.back().parts.empty()) return {};
  return input.messages.back().parts.back().text;
}

void cut_to(RenderedPrompt& prompt, size_t end) {
  prompt.text.resize(end);
  while (!prompt.literal.empty() && prompt.literal.back().begin >= end) prompt.literal.pop_back();
  if (!prompt.literal.empty()) prompt.literal.back().end = std::min(prompt.literal.back().end, end);
}

// Where `wanted` stands last in what came from messages; npos if nowhere.
size_t find_literal(const RenderedPrompt& prompt, std::string_view wanted) {
  for (auto span = prompt.literal.rbegin(); span != prompt.literal.rend(); ++span) {
    const std::string_view text =
        std::string_view(prompt.text).substr(span->begin, span->end - span->begin);
    if (const size_t at = text.rfind(wanted); at != text.npos) return span->begin + at;
  }
  return std::string::npos;
}

Status end_with(RenderedPrompt& prompt, std::string_view final) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  std::string valid;
  append_lossy(valid, final);
  const std::string_view whole = valid;
  if (const size_t at = find_literal(prompt, whole); !whole.empty() && at != whole.npos) {
    cut_to(prompt, at + whole.size());
    return {};
  }
  const size_t first = whole.find_first_not_of(kSpace);
  const size_t end = whole.find_last_not_of(kSpace) + 1;
  const std::string_view stripped =
      first == whole.npos ? std::string_view() : whole.substr(first, end - first);
  const size_t at = stripped.empty() ? whole.npos : find_literal(prompt, stripped);
  if (at == whole.npos)
    return fail(
        ErrorKind::kInvalidArgument,
        "the chat template does not show the last message's text as it is, so that it cannot "
        "be continued");
  cut_to(prompt, at + stripped.size());
  const std::string_view tail = whole.substr(end);
  if (tail.empty()) return {};
  prompt.literal.back().end += tail.size();
  prompt.text += tail;
  return {};
}

Value part_value(Interpreter& in, const ChatPart& part) {
  const bool is_image = part.kind == ChatPart::Kind::kImage;
  std::vector<std::pair<Value, Value>> fields;
  fields.emplace_back(Value::text("type"), Value::text(is_image ? "image" : "text"));
  if (!is_image) {
    Text text;
    append_part(text, part);
    fields.emplace_back(Value::text("text"), in.make_text(std::move(text)));
  }
  return in.make_dict(std::move(fields));
}

class JinjaChatTemplate final : public ChatTemplate {
 public:
  JinjaChatTemplate(jinja::Body body, const ToolFormat* tools, std::string_view bos_token,
                    std::string_view eos_token)
      : body_(std::move(body)), bos_token_(bos_token), eos_token_(eos_token) {
    for (size_t i = 0; i < kRoles.size(); ++i) {
      forms_[i] = probe(kRoles[i]);
      if (forms_[i].string || forms_[i].parts) continue;
      // It takes the role in no form that we know of: the template is given what the client sent,
      // and says what it wants.
      forms_[i] = ContentForms{};
      if (kRoles[i] == "system") takes_system_ = false;
    }
    ChatInput described;
    described.messages.push_back({"user", {{ChatPart::Kind::kText, "x"}}, true});
    ChatInput called = described;
    described.tools_json = kToolProbe;
    called.messages.push_back({"assistant", {{ChatPart::Kind::kText, ""}}, true});
    called.messages.back().tool_calls_json = kCallProbe;
    if (tools != nullptr && prints_probe(described)) tools_ = tools;
    prints_calls_ = prints_probe(called);
  }

  Result<RenderedPrompt> render(const ChatInput& input) const override {
    const bool rewrites =
        tools_ == nullptr && speaks_of_tools(input) && !(prints_calls_ && input.tools_json.empty());
    for (size_t i = 0; i < input.messages.size(); ++i) {
      const ChatMessage& message = input.messages[i];
      if (has_image(message) &&
          !forms(rewrites && message.role == "tool" ? "user" : message.role).parts)
        return fail(ErrorKind::kInvalidArgument,
                    "the chat template takes no images in this message", "",
                    fmt::format("messages[{}].content", i));
    }
    if (!rewrites) return rendered(input);
    auto messages = with_tools_as_text(input, takes_system_);
    if (!messages) return std::unexpected(std::move(messages.error()));
    ChatInput rewritten = input;
    rewritten.messages = *std::move(messages);
    rewritten.tools_json.clear();
    return rendered(rewritten);
  }

  const ToolFormat& tool_format() const override {
    return tools_ == nullptr ? hermes_tools() : *tools_;
  }

  Result<std::string> render_json(const nlohmann::json& context) const override {
    try {
      Interpreter in(body_, jinja::Limits());
      if (context.is_object())
        for (auto it = context.begin(); it != context.end(); ++it)
          in.set(it.key(), from_json(in, *it));
      return in.run().bytes;
    } catch (const jinja::TemplateError& error) {
      return template_error(error);
    }
  }

 private:
  Result<RenderedPrompt> rendered(const ChatInput& input) const {
    try {
      Text text = run(
          input, [&](const ChatMessage& message) { return forms(message.role); }, jinja::Limits());
      RenderedPrompt prompt{std::move(text.bytes), std::move(text.literal)};
      if (input.continue_final_message)
        if (const Status cut = end_with(prompt, final_text(input)); !cut)
          return std::unexpected(cut.error());
      return prompt;
    } catch (const jinja::TemplateError& error) {
      return template_error(error);
    }
  }

  static bool speaks_of_tools(const ChatInput& input) {
    return !input.tools_json.empty() ||
           std::ranges::any_of(input.messages, [](const ChatMessage& message) {
             return message.role == "tool" || !message.tool_calls_json.empty();
           });
  }

  // Whether the name of a function arrives in what the template writes.
  bool prints_probe(const ChatInput& input) const {
    jinja::Limits limits;
    limits.work_max = kProbeWorkMax;
    try {
      const Text text =
          run(input, [&](const ChatMessage& message) { return forms(message.role); }, limits);
      return text.bytes.find("hs-tool-probe") != std::string::npos;
    } catch (const jinja::TemplateError&) {
      return false;
    }
  }

  static bool has_image(const ChatMessage& message) {
    return std::ranges::any_of(
        message.parts, [](const ChatPart& part) { return part.kind == ChatPart::Kind::kImage; });
  }

  ContentForms forms(std::string_view role) const {
    const auto it = std::ranges::find(kRoles, role);
    return it == kRoles.end() ? ContentForms{} : forms_[static_cast<size_t>(it - kRoles.begin())];
  }

  template <typename FormsOf>
  Text run(const ChatInput& input, const FormsOf& forms_of, const jinja::Limits& limits) const {
    Interpreter in(body_, limits);
    if (!input.template_kwargs_json.empty()) set_kwargs(in, input.template_kwargs_json);
    std::vector<Value> messages;
    for (const ChatMessage& message : input.messages)
      messages.push_back(message_value(in, message, forms_of(message)));
    in.set("messages", in.make_list(std::move(messages)));
    in.set("add_generation_prompt", Value(input.add_generation_prompt));
    in.set("tools", input.tools_json.empty() ? Value(None{}) : client_value(in, input.tools_json));
    in.set("documents", Value(None{}));
    if (!bos_token_.empty()) in.set("bos_token", Value::text(bos_token_));
    if (!eos_token_.empty()) in.set("eos_token", Value::text(eos_token_));
    if (input.clock != nullptr)
      in.set("strftime_now", Value(jinja::make_strftime_now(input.clock->unix_ms() / 1000)));
    return in.run();
  }

  static void set_kwargs(Interpreter& in, const std::string& json) {
    const auto kwargs = nlohmann::json::parse(json, nullptr, false);
    for (auto it = kwargs.begin(); it != kwargs.end(); ++it)
      in.set(it.key(), from_json(in, *it, true));
  }

  static Value message_value(Interpreter& in, const ChatMessage& message, ContentForms forms) {
    const bool as_parts =
        has_image(message) || !forms.string || (!message.content_is_string && forms.parts);
    Value content;
    if (as_parts) {
      std::vector<Value> parts;
      for (const ChatPart& part : message.parts) parts.push_back(part_value(in, part));
      content = in.make_list(std::move(parts));
    } else {
      Text text;
      for (size_t i = 0; i < message.parts.size(); ++i) {
        if (i > 0) text.append("\n", true);
        append_part(text, message.parts[i]);
      }
      content = in.make_text(std::move(text));
    }
    std::vector<std::pair<Value, Value>> fields;
    fields.emplace_back(Value::text("role"), Value::text(message.role));
    fields.emplace_back(Value::text("content"), std::move(content));
    if (!message.name.empty())
      fields.emplace_back(Value::text("name"), user_text(in, message.name));
    if (!message.tool_call_id.empty())
      fields.emplace_back(Value::text("tool_call_id"), user_text(in, message.tool_call_id));
    if (!message.tool_calls_json.empty())
      fields.emplace_back(Value::text("tool_calls"), client_value(in, message.tool_calls_json));
    return in.make_dict(std::move(fields));
  }

  // Renders a small chat with a content of that role in both forms, and looks for the content in
  // what comes out; neither form where it never comes.
  ContentForms probe(std::string_view role) const {
    const auto text_part = [](std::string_view text) {
      return ChatPart{ChatPart::Kind::kText, std::string(text)};
    };
    ChatInput input;
    const bool follows_user = role == "assistant" || role == "tool";
    if (follows_user) input.messages.push_back({"user", {text_part("x")}, true});
    input.messages.push_back({std::string(role), {text_part(kProbe)}, true});
    if (role == "system") input.messages.push_back({"user", {text_part("x")}, true});
    const size_t target = follows_user ? 1 : 0;
    jinja::Limits limits;
    limits.work_max = kProbeWorkMax;
    const auto takes = [&](ContentForms wanted, bool others_as_parts) {
      try {
        const Text text = run(
            input,
            [&](const ChatMessage& message) {
              if (&message == &input.messages[target]) return wanted;
              return ContentForms{!others_as_parts, others_as_parts};
            },
            limits);
        // A template that prints the list itself has not taken it.
        const bool printed = text.bytes.find("'type'") != std::string::npos ||
                             text.bytes.find("\"type\"") != std::string::npos;
        return text.bytes.find(kProbe) != std::string::npos && !printed;
      } catch (const jinja::TemplateError&) {
        return false;
      }
    };
    ContentForms result;
    result.string = takes({true, false}, false) || takes({true, false}, true);
    result.parts = takes({false, true}, false) || takes({false, true}, true);
    return result;
  }

  jinja::Body body_;
  std::string bos_token_;
  std::string eos_token_;
  std::array<ContentForms, kRoles.size()> forms_;
  bool takes_system_ = true;
  const ToolFormat* tools_ = nullptr;  // null: the template knows no tools, or no known format
  bool prints_calls_ = false;          // of an assistant, in whatever format
};

// A token field is a string or an object with "content".
std::string token_content(const nlohmann::json& config, std::string_view key) {
  const nlohmann::json* field = json_field(config, key);
  if (field != nullptr && field->is_object()) field = json_field(*field, "content");
  return field != nullptr && field->is_string() ? field->get<std::string>() : std::string();
}

// A "chat_template" field: a string, or a list of named templates of which "default" is meant.
std::optional<std::string> template_source(const nlohmann::json& config) {
  const nlohmann::json* field = json_field(config, "chat_template");
  if (field == nullptr) return std::nullopt;
  if (field->is_string()) return field->get<std::string>();
  if (!field->is_array()) return std::nullopt;
  for (const nlohmann::json& entry : *field) {
    const nlohmann::json* name = json_field(entry, "name");
    const nlohmann::json* source = json_field(entry, "template");
    if (name != nullptr && source != nullptr && source->is_string() && *name == "default")
      return source->get<std::string>();
  }
  return std::nullopt;
}

// A JSON file of the checkpoint, null if there is none.
Result<nlohmann::json> read_json(const std::filesystem::path& path) {
  const auto text = read_text_file(path, kConfigBytesMax);
  if (!text) {
    if (text.error().kind == ErrorKind::kNotFound) return nlohmann::json();
    return std::unexpected(text.error());
  }
  return json_parse(*text, path.string());
}

}  // namespace

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::load(const std::filesystem::path& dir) {
  const auto config = read_json(dir / "tokenizer_config.json");
  if (!config) return std::unexpected(config.error());
  const auto specials = read_json(dir / "special_tokens_map.json");
  if (!specials) return std::unexpected(specials.error());
  const auto token = [&](std::string_view key) {
    std::string content = token_content(*config, key);
    return content.empty() ? token_content(*specials, key) : content;
  };
  std::optional<std::string> source;
  std::string file = "chat_template.jinja";
  const auto jinja = read_text_file(dir / file, kSourceBytesMax);
  if (jinja) {
    source = *jinja;
  } else if (jinja.error().kind != ErrorKind::kNotFound) {
    return std::unexpected(jinja.error());
  }
  if (!source) {
    file = "chat_template.json";
    const auto json = read_json(dir / file);
    if (!json) return std::unexpected(json.error());
    source = template_source(*json);
  }
  if (!source) {
    file = "tokenizer_config.json";
    source = template_source(*config);
  }
  if (!source)
    return fail(ErrorKind::kNotFound, fmt::format("{} has no chat template", dir.string()));
  auto result = parse(*source, token("bos_token"), token("eos_token"));
  if (!result)
    result.error().message = fmt::format("{}: {}", (dir / file).string(), result.error().message);
  return result;
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::parse(std::string_view source,
                                                          std::string_view bos_token,
                                                          std::string_view eos_token) {
  if (source.size() > kSourceBytesMax)
    return fail(ErrorKind::kTooLarge, fmt::format("chat template: over {} bytes", kSourceBytesMax));
  std::string valid;
  append_lossy(valid, source);
  try {
    return std::make_unique<JinjaChatTemplate>(jinja::parse(valid), tool_format_of(valid),
                                               bos_token, eos_token);
  } catch (const jinja::TemplateError& error) {
    return template_error(error);
  }
}

}  // namespace hs
