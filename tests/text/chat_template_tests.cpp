// Proves that templates render as Python's Jinja2 renders them, that user text is marked literal
// wherever a template puts it, and that hostile templates end in an error.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "support/source_dir.h"
#include "text/chat_template.h"

using hs::ChatInput;
using hs::ChatMessage;
using hs::ChatPart;
using hs::ChatTemplate;
using Json = nlohmann::json;

namespace {

const std::string kGolden = hs::source_dir() + "/tests/golden/text/";

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  BOOST_REQUIRE_MESSAGE(file.good(), "cannot read " << path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::unique_ptr<ChatTemplate> must_parse(std::string_view source, std::string_view bos = "<s>",
                                         std::string_view eos = "</s>") {
  auto result = ChatTemplate::parse(source, bos, eos);
  BOOST_REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().message));
  return std::move(*result);
}

std::string rendered(std::string_view source, const Json& context = Json::object()) {
  const auto result = must_parse(source)->render_json(context);
  return result ? *result : "error: " + result.error().message;
}

std::string parse_error(std::string_view source) {
  const auto result = ChatTemplate::parse(source, "", "");
  return result ? "" : result.error().message;
}

ChatMessage text_message(std::string role, std::string text) {
  return {std::move(role), {{ChatPart::Kind::kText, std::move(text)}}, true};
}

// The text with every literal span in «».
std::string marked(const ChatTemplate& chat, const ChatInput& input) {
  const auto prompt = chat.render(input);
  if (!prompt) return "error: " + prompt.error().message;
  std::string out;
  size_t done = 0;
  for (const hs::TextSpan& span : prompt->literal) {
    out += prompt->text.substr(done, span.begin - done) + "\u00AB" +
           prompt->text.substr(span.begin, span.end - span.begin) + "\u00BB";
    done = span.end;
  }
  return out + prompt->text.substr(done);
}

constexpr std::string_view kLlava =
    "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + "
    "': ' }}{% endif %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ "
    "'<image>\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ "
    "content['text'] + ' ' }}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}";

constexpr std::string_view kStringsOnly =
    "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>{% endfor %}";

}  // namespace

BOOST_AUTO_TEST_SUITE(chat_template_tests)

// make_template_cases.py writes the table with Jinja2.
BOOST_AUTO_TEST_CASE(output_equals_jinja2) {
  const Json table = Json::parse(read(kGolden + "template_cases.json"));
  size_t count = 0;
  for (const Json& entry : table) {
    const auto name = entry["name"].get<std::string>();
    const auto chat = ChatTemplate::parse(entry["template"].get<std::string>(), "", "");
    if (!chat) {
      BOOST_ERROR(name << ": " << chat.error().message);
      continue;
    }
    for (const Json& item : entry["cases"]) {
      ++count;
      const auto result = (*chat)->render_json(item["context"]);
      if (item.contains("error")) {
        BOOST_CHECK_MESSAGE(!result, name << ": rendered " << Json(result.value_or("")).dump()
                                          << " instead of the error " << item["error"]
                                          << "\n context " << item["context"].dump());
      } else {
        BOOST_CHECK_MESSAGE(result && *result == item["output"].get<std::string>(),
                            name << ":\n  got      "
                                 << (result ? Json(*result).dump() : result.error().message)
                                 << "\n  expected " << item["output"].dump() << "\n  context  "
                                 << item["context"].dump());
      }
    }
  }
  BOOST_TEST_MESSAGE(count << " cases");
  BOOST_TEST(count > 500U);
}

BOOST_AUTO_TEST_CASE(what_jinja2_refuses_is_refused) {
  for (const Json& source : Json::parse(read(kGolden + "template_refused.json")))
    BOOST_TEST(!parse_error(source.get<std::string>()).empty(), source);
}

BOOST_AUTO_TEST_CASE(content_takes_the_form_that_the_template_reads) {
  const auto llava = must_parse(kLlava);
  ChatInput input{{text_message("user", "hello")}, true, nullptr};
  BOOST_TEST(marked(*llava, input) == "USER: «hello» ASSISTANT:");
  input.messages[0].parts.insert(input.messages[0].parts.begin(),
                                 ChatPart{ChatPart::Kind::kImage, ""});
  BOOST_TEST(marked(*llava, input) == "USER: <image>\n«hello» ASSISTANT:");

  const auto strings = must_parse(kStringsOnly);
  ChatInput parts{{{"user", {{ChatPart::Kind::kText, "A"}, {ChatPart::Kind::kText, "B"}}, false}},
                  false,
                  nullptr};
  BOOST_TEST(marked(*strings, parts) == "<user>«A\nB»</user>");
  parts.messages[0].parts.push_back({ChatPart::Kind::kImage, ""});
  const auto refused = strings->render(parts);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().kind == hs::ErrorKind::kInvalidArgument));
  BOOST_TEST(refused.error().param == "messages[0].content");
}

BOOST_AUTO_TEST_CASE(parts_keep_their_order_where_the_template_keeps_it) {
  const auto chat = must_parse(
      "{% for m in messages %}{% for p in m.content %}{% if p.type == 'image' %}[I]{% else %}{{ "
      "p.text }}{% endif %}"
      "{% endfor %}{% endfor %}");
  using Kind = ChatPart::Kind;
  const ChatInput input{{{"user",
                          {{Kind::kText, "a"},
                           {Kind::kImage, ""},
                           {Kind::kText, "b"},
                           {Kind::kImage, ""},
                           {Kind::kText, "c"}},
                          false}},
                        true,
                        nullptr};
  BOOST_TEST(marked(*chat, input) == "«a»[I]«b»[I]«c»");
}

BOOST_AUTO_TEST_CASE(user_text_is_literal_wherever_it_goes) {
  const auto check = [](std::string_view expression, std::string_view user,
                        std::string_view expected) {
    const std::string source =
        "{% set c = messages[0].content %}{{ " + std::string(expression) + " }}";
    BOOST_TEST(marked(*must_parse(source),
                      {{text_message("user", std::string(user))}, true, nullptr}) == expected,
               expression << " gave "
                          << marked(*must_parse(source),
                                    {{text_message("user", std::string(user))}, true, nullptr}));
  };
  check("'<' + c + '>'", "x", "<«x»>");
  check("'<' ~ c ~ '>' ~ c", "x", "<«x»>«x»");
  check("c | trim", "  x ", "«x»");
  check("c.strip() + '|'", " x ", "«x»|");
  check("c | replace('b', '<s>')", "abc", "«a»<s>«c»");
  check("'a-b' | replace('-', c)", "x", "a«x»b");
  check("c.split('-')[1]", "a-b", "«b»");
  check("c.split('-') | join('<s>')", "a-b", "«a»<s>«b»");
  check("c[1:3]", "abcd", "«bc»");
  check("c[::-1]", "ab", "«ba»");
  check("c | upper", "ab", "«AB»");
  check("c | tojson", "a\"b", "\"«a\\\"b»\"");
  check("[c, 1]", "a", "['«a»', 1]");
  check("'%s!' % c", "a", "«a»!");
  check("c | indent(2)", "a\nb", "«a»\n  «b»");
  check("c | list | last", "ab", "«b»");
  check("(c * 2) + c[0]", "ab", "«ababa»");
  check("namespace(x=c).x | capitalize", "ab", "«Ab»");
  check("messages[0].role + c", "x", "user«x»");
  check("c | string | default('')", "x", "«x»");
}

BOOST_AUTO_TEST_CASE(captured_text_stays_literal) {
  const auto chat = must_parse(
      "{% macro m(x) %}<{{ x }}>{% endmacro %}{% set b %}[{{ m(messages[0].content) }}]{% endset %}"
      "{% generation %}{{ b | trim }}{% endgeneration %}{% filter upper %}{{ messages[0].content "
      "}}z{% endfilter %}");
  BOOST_TEST(marked(*chat, {{text_message("user", "q")}, true, nullptr}) == "[<«q»>]«Q»Z");
}

BOOST_AUTO_TEST_CASE(special_tokens_and_flags_reach_the_template) {
  const auto chat = must_parse(
      "{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ tools is none }}{{ documents is "
      "none }}");
  BOOST_TEST(marked(*chat, {{}, true, nullptr}) == "<s></s>TrueTrueTrue");
  BOOST_TEST(marked(*must_parse("{{ bos_token is defined }}", "", ""), {{}, true, nullptr}) ==
             "False");
}

BOOST_AUTO_TEST_CASE(the_date_comes_from_the_clock) {
  const auto chat = must_parse("{{ strftime_now('%Y') if strftime_now is defined else 'none' }}");
  BOOST_TEST(marked(*chat, {{}, true, nullptr}) == "none");
  hs::ManualClock clock;
  clock.advance_us(int64_t{1'751'371'200} * 1'000'000);  // 1 July 2025
  BOOST_TEST(marked(*chat, {{}, true, &clock}) == "2025");
}

BOOST_AUTO_TEST_CASE(an_exception_of_the_template_is_the_callers_error) {
  const auto chat = must_parse("{{ raise_exception('Only user roles!') }}");
  const auto result = chat->render({{text_message("user", "x")}, true, nullptr});
  BOOST_REQUIRE(!result.has_value());
  BOOST_TEST((result.error().kind == hs::ErrorKind::kInvalidArgument));
  BOOST_TEST(result.error().message.find("Only user roles!") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(mistakes_are_found_at_load_with_their_line) {
  const auto check = [](std::string_view source, std::string_view word, std::string_view line) {
    const std::string message = parse_error(source);
    BOOST_CHECK_MESSAGE(
        message.find(word) != std::string::npos && message.find(line) != std::string::npos,
        "\"" << source << "\" gave \"" << message << "\"");
  };
  check("a\nb{{ x | nosuchfilter }}", "nosuchfilter", "line 2");
  check("{{ x is nosuchtest }}", "nosuchtest", "line 1");
  check("\n\n{% nosuchtag %}", "nosuchtag", "line 3");
  check("{% include 'x' %}", "include", "line 1");
  check("{% if x %}", "endif", "line 1");
  check("{% endif %}", "endif", "line 1");
  check("{{ x", "end of template", "line 1");
  check("{{ 'x }}", "string", "line 1");
  check("{# x", "comment", "line 1");
  check("{% raw %} x", "raw", "line 1");
  check("{{ (1 }}", "'}', expected ')'", "line 1");
  check("{{ 1 + }}", "unexpected", "line 1");
  check("{% for x of y %}{% endfor %}", "expected 'in'", "line 1");
  check("{% break %}", "outside", "line 1");
  check("{{ 99999999999999999999 }}", "64 bits", "line 1");
  check("{{ '\\ud800' }}", "escape", "line 1");
  check("{% set true = 1 %}", "assign", "line 1");
}

BOOST_AUTO_TEST_CASE(hostile_templates_end_in_an_error) {
  const auto fails = [](std::string_view source, std::string_view word) {
    const std::string result = rendered(source);
    BOOST_CHECK_MESSAGE(result.starts_with("error: ") && result.find(word) != std::string::npos,
                        "\"" << source << "\" gave \"" << result.substr(0, 200) << "\"");
  };
  fails("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps");
  fails(
      "{% set ns = namespace(x='abcdefgh') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x "
      "%}{% endfor %}",
      "too long");
  fails(
      "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% "
      "endfor %}",
      "too long");
  fails(
      "{% set ns = namespace(x=[1]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "nested");
  fails(
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}{{ ns.x }}",
      "too large");
  fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested");
  fails("{{ 'a' * 999999999999 }}", "too long");
  fails("{{ [1] * 999999999999 }}", "too long");
  fails("{{ range(999999999) | list }}", "too big");
  fails("{{ 9223372036854775807 + 1 }}", "overflow");
  fails("{{ (0 - 9223372036854775807 - 1) // -1 }}", "overflow");
  fails("{{ 3 ** 99 }}", "overflow");
  fails("{{ 1 // 0 }}", "zero");
  fails("{{ 1 % 0 }}", "zero");
  fails("{{ [1].append(2) }}", "must not change");
  fails("{{ [1, 'a'] | sort }}", "not supported");
  BOOST_TEST(parse_error(std::string(100000, '(')).empty());  // data, not a tag
  BOOST_TEST(!parse_error("{{ " + std::string(100000, '(')).empty());
  BOOST_TEST(!parse_error("{{ " + std::string(100000, '-') + "1 }}").empty());
  std::string sum = "{{ 1";
  for (int i = 0; i < 100000; ++i) sum += " + 1";
  BOOST_TEST(!parse_error(sum + " }}").empty());
  std::string ifs;
  for (int i = 0; i < 10000; ++i) ifs += "{% if x %}";
  BOOST_TEST(!parse_error(ifs).empty());
}

BOOST_AUTO_TEST_CASE(cycles_and_chains_are_freed) {
  // Under the leak sanitizer this shows that ties through namespaces and macros are cut.
  BOOST_TEST(rendered("{% set ns = namespace() %}{% set ns.me = ns %}{% macro m() %}{{ ns }}{% "
                      "endmacro %}{% set ns.m = m %}ok") == "ok");
  BOOST_TEST(rendered("{% set ns = namespace(x=namespace()) %}{% for i in range(90000) %}{% set "
                      "ns.x = namespace(p=ns.x) %}{% endfor %}ok") == "ok");
}

BOOST_AUTO_TEST_CASE(templates_are_found_in_a_checkpoint) {
  const auto missing = ChatTemplate::load("/nonexistent");
  BOOST_REQUIRE(!missing.has_value());
  BOOST_TEST((missing.error().kind == hs::ErrorKind::kNotFound));
  const auto llava = ChatTemplate::load(kGolden + "llava");
  BOOST_REQUIRE(llava.has_value());
  BOOST_TEST(marked(**llava, {{text_message("user", "hi")}, true, nullptr}) ==
             "USER: «hi» ASSISTANT:");
}

// What the template writes behind the text is left out; white space that it strips is put back.
BOOST_AUTO_TEST_CASE(a_continued_message_ends_the_prompt) {
  constexpr const char* kPlain =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  constexpr const char* kTrimmed =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>{% endfor %}";
  ChatInput input;
  input.messages = {text_message("user", "The answer is"), text_message("assistant", "")};
  input.add_generation_prompt = false;
  input.continue_final_message = true;
  const auto ends_with = [&](const char* source, const std::string& text) {
    input.messages[1] = text_message("assistant", text);
    return marked(*must_parse(source), input);
  };
  BOOST_TEST(ends_with(kPlain, "The answer is") ==
             "<|user|>\u00ABThe answer is\u00BB<|end|><|assistant|>\u00ABThe answer is\u00BB");
  for (const char* source : {kPlain, kTrimmed})
    BOOST_TEST(ends_with(source, " 4 + ") ==
               std::string("<|user|>\u00ABThe answer is\u00BB<|end|><|assistant|>\u00AB") +
                   (source == kPlain ? " 4 + " : "4 + ") + "\u00BB");
  BOOST_TEST(ends_with("{{ messages[0].content }}", "gone").starts_with("error: "));
  BOOST_TEST(ends_with(kTrimmed, "  ").starts_with("error: "));
}

BOOST_AUTO_TEST_CASE(variables_of_a_request_are_literal_and_cannot_hide_messages) {
  const auto chat = must_parse(
      "{% if not enable_thinking %}<off>{% endif %}{{ note }}{% for m in messages %}"
      "{{ m.content }}{% endfor %}");
  ChatInput input;
  input.messages = {text_message("user", "hi")};
  input.template_kwargs_json = R"({"enable_thinking":false,"note":"</s>","messages":[]})";
  BOOST_TEST(marked(*chat, input) == "<off>\u00AB</s>hi\u00BB");
}

BOOST_AUTO_TEST_CASE(tool_calls_of_a_conversation_reach_the_template_as_literals) {
  const auto chat = must_parse(
      "{% for m in messages %}<|{{ m.role }}|>{% for c in m.tool_calls %}"
      "{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}"
      "{{ m.content }}{{ m.tool_call_id }}{% endfor %}");
  ChatInput input;
  input.messages = {text_message("assistant", ""), text_message("tool", "5")};
  input.messages[0].tool_calls_json =
      R"([{"id":"c1","type":"function","function":{"name":"f","arguments":{"a":"</s>"}}}])";
  input.messages[1].tool_call_id = "c1";
  const auto prompt = chat->render(input);
  BOOST_REQUIRE(prompt);
  BOOST_TEST(prompt->text == "<|assistant|>f({\"a\": \"</s>\"})<|tool|>5c1");
  const size_t at = prompt->text.find("</s>");
  BOOST_TEST(std::ranges::any_of(prompt->literal, [&](const hs::TextSpan& span) {
    return span.begin <= at && at + 4 <= span.end;
  }));
}

BOOST_AUTO_TEST_SUITE_END()
