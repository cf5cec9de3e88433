// Proves that conversations with tools are rendered as Python's Jinja2 renders them, and that a
// template without tools is given what Qwen2.5's makes of them.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "support/source_dir.h"
#include "text/chat_template.h"
#include "text/tool_turns.h"

namespace hs {

using Json = nlohmann::ordered_json;

namespace {

const std::string kGolden = source_dir() + "/tests/golden/text/";

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  BOOST_REQUIRE_MESSAGE(file.good(), "cannot read " << path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::unique_ptr<ChatTemplate> parsed(std::string_view source) {
  auto chat = ChatTemplate::parse(source, "<s>", "</s>");
  BOOST_REQUIRE_MESSAGE(chat.has_value(), (chat ? "" : chat.error().message));
  return *std::move(chat);
}

std::unique_ptr<ChatTemplate> golden_template(const std::string& name) {
  return parsed(read(kGolden + "tool_templates/" + name + ".jinja"));
}

ChatMessage message(std::string role, std::string text) {
  return {std::move(role), {{ChatPart::Kind::kText, std::move(text)}}, true};
}

ChatInput input_of(const Json& one) {
  ChatInput input;
  for (const Json& given : one["messages"]) {
    input.messages.push_back(message(given["role"], given["content"]));
    if (given.contains("tool_calls"))
      input.messages.back().tool_calls_json = given["tool_calls"].dump();
    if (given.contains("tool_call_id")) input.messages.back().tool_call_id = given["tool_call_id"];
  }
  if (!one["tools"].is_null()) input.tools_json = one["tools"].dump();
  return input;
}

// The text with every literal span in «».
std::string marked(const ChatTemplate& chat, const ChatInput& input) {
  const auto prompt = chat.render(input);
  if (!prompt) return "error: " + prompt.error().message;
  std::string out;
  size_t done = 0;
  for (const TextSpan& span : prompt->literal) {
    out += prompt->text.substr(done, span.begin - done) + "\u00AB" +
           prompt->text.substr(span.begin, span.end - span.begin) + "\u00BB";
    done = span.end;
  }
  return out + prompt->text.substr(done);
}

constexpr const char* kPing = R"([{"type":"function","function":{"name":"ping"}}])";
constexpr const char* kPingCall =
    R"([{"id":"c","type":"function","function":{"name":"ping","arguments":{"a":"<x>"}}}])";

}  // namespace

BOOST_AUTO_TEST_SUITE(tool_turns_tests)

BOOST_AUTO_TEST_CASE(conversations_with_tools_equal_the_reference) {
  const Json cases = Json::parse(read(kGolden + "tool_cases.json"));
  BOOST_REQUIRE(cases.size() > 10U);
  for (const Json& one : cases) {
    BOOST_TEST_CONTEXT(one["template"] << ": " << one["name"]) {
      const auto prompt = golden_template(one["template"])->render(input_of(one));
      BOOST_REQUIRE_MESSAGE(prompt.has_value(), (prompt ? "" : prompt.error().message));
      BOOST_TEST(prompt->text == one["output"].get<std::string>());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_template_tells_the_format_of_its_calls) {
  BOOST_TEST(golden_template("qwen2_5")->tool_format().name == "hermes");
  BOOST_TEST(golden_template("llama3_1")->tool_format().name == "llama");
  BOOST_TEST(golden_template("chatml")->tool_format().name == "hermes");
  // Tags with another inside, and tools that never arrive in the prompt.
  BOOST_TEST(tool_format_of("<tool_call><function=f> arguments") == nullptr);
  BOOST_TEST(parsed("{# \"parameters\": ipython #}{{ messages[0].content }}")->tool_format().name ==
             "hermes");
}

BOOST_AUTO_TEST_CASE(what_clients_say_of_tools_holds_no_control_tokens) {
  const Json cases = Json::parse(read(kGolden + "tool_cases.json"));
  for (const Json& one : cases) {
    const auto prompt = golden_template(one["template"])->render(input_of(one));
    BOOST_REQUIRE(prompt.has_value());
    for (const std::string word : {"東京 <|im_end|>.", "x</tool_call>\\", "degrees", "pong"}) {
      const size_t at = prompt->text.find(word);
      if (at == std::string::npos) continue;
      bool is_literal = false;
      for (const TextSpan& span : prompt->literal)
        is_literal = is_literal || (span.begin <= at && at + word.size() <= span.end);
      BOOST_TEST(is_literal, one["template"] << ": " << word);
    }
  }
}

BOOST_AUTO_TEST_CASE(tags_of_this_server_are_control_tokens_and_arguments_are_not) {
  const auto chat = parsed("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  ChatInput input;
  input.messages = {message("user", "hi"), message("assistant", "well"), message("tool", "5")};
  input.messages[1].tool_calls_json = kPingCall;
  BOOST_TEST(marked(*chat, input) ==
             "<user>«hi»<assistant>«well»\n<tool_call>«\n{\"name\": \"ping\", \"arguments\": "
             "{\"a\": \"<x>\"}}»\n</tool_call><user><tool_response>\n«5»\n</tool_response>");
}

BOOST_AUTO_TEST_CASE(tools_make_a_system_turn_or_begin_the_users) {
  ChatInput input;
  input.messages = {message("user", "hi")};
  input.tools_json = kPing;
  const auto any = parsed("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  const std::string with_system = any->render(input)->text;
  BOOST_TEST(with_system.starts_with("<system># Tools\n\n"));
  BOOST_TEST(with_system.ends_with("</tool_call><user>hi"));
  BOOST_TEST(with_system.find("{\"type\": \"function\", \"function\": {\"name\": \"ping\"}}") !=
             std::string::npos);
  const auto none = parsed(
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
      "{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  const std::string without_system = none->render(input)->text;
  BOOST_TEST(without_system.starts_with("<user># Tools\n\n"));
  BOOST_TEST(without_system.ends_with("</tool_call>\n\nhi"));
}

BOOST_AUTO_TEST_CASE(parts_and_pictures_keep_their_order_in_a_tools_answer) {
  const auto chat = parsed(
      "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content %}{{ '[' + p.type + ']' if p.type == 'image' else p.text }}"
      "{% endfor %}{% endif %}{% endfor %}");
  ChatInput input;
  input.messages = {message("user", "hi"), message("assistant", "")};
  input.messages[1].tool_calls_json = kPingCall;
  ChatMessage tool;
  tool.role = "tool";
  tool.parts = {{ChatPart::Kind::kText, "a"},
                {ChatPart::Kind::kText, "b"},
                {ChatPart::Kind::kImage, ""},
                {ChatPart::Kind::kText, "c"}};
  input.messages.push_back(tool);
  const auto prompt = chat->render(input);
  BOOST_REQUIRE(prompt.has_value());
  BOOST_TEST(prompt->text.ends_with("<user><tool_response>\na\nb[image]c\n</tool_response>"));
}

BOOST_AUTO_TEST_CASE(spaces_follow_commas_and_colons_outside_of_strings) {
  BOOST_TEST(spaced_json(R"({"a,:\"":[1,"b:\\"],"c":{}})") == R"({"a,:\"": [1, "b:\\"], "c": {}})");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
