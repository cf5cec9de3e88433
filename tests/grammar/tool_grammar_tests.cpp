// Proves the languages of answers with calls: what may stand before, between and behind calls, what
// a call must look like, and that every text of allowed tokens is one or a legal beginning of one.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/tool_grammar.h"
#include "grammar_testing.h"

namespace hs {

using nlohmann::json;

namespace {

constexpr const char* kWeather =
    R"({"type":"object","properties":{"city":{"type":"string","maxLength":12},"days":{"type":"integer","minimum":1,"maximum":9}},
        "required":["city"],"additionalProperties":false})";
constexpr const char* kNothing = R"({"type":"object","properties":{}})";

ToolGrammar hermes(ToolGrammar::Calls calls) {
  ToolGrammar tools;
  tools.calls = calls;
  tools.opening = "<tool_call>";
  tools.closing = "</tool_call>";
  tools.arguments = "arguments";
  if (calls != ToolGrammar::Calls::kNever)
    tools.functions = {{"weather", kWeather, true, "tools[0].function.parameters"},
                       {"ping", kNothing, false, "tools[1].function.parameters"}};
  return tools;
}

ToolGrammar llama(ToolGrammar::Calls calls) {
  ToolGrammar tools = hermes(calls);
  tools.opening = tools.closing = "";
  tools.control = "<|python_tag|>";
  tools.arguments = "parameters";
  tools.only_first = true;
  tools.many = false;
  return tools;
}

struct Answers {
  explicit Answers(const ToolGrammar& tools) {
    const auto parsed = parse_tool_grammar(pool, tools.to_text());
    BOOST_REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().message));
    start = *parsed;
  }
  bool has(std::string_view text) { return matches(pool, start, text); }
  bool begins(std::string_view text) {
    Expr state = start;
    for (const char c : text) state = pool.derivative(state, static_cast<uint8_t>(c));
    return state != kNoText;
  }
  ExpressionPool pool;
  Expr start = kNoText;
};

const std::string kCall =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}\n"
    "</tool_call>";
const std::string kPing = "<tool_call>{\"name\":\"ping\",\"arguments\":{}}</tool_call>";

Error error_of(const ToolGrammar& tools) {
  ExpressionPool pool;
  const auto parsed = parse_tool_grammar(pool, tools.to_text());
  BOOST_REQUIRE(!parsed.has_value());
  return parsed.error();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tool_grammar_tests)

BOOST_AUTO_TEST_CASE(a_text_may_be_followed_by_calls_and_calls_by_nothing) {
  Answers language(hermes(ToolGrammar::Calls::kMaybe));
  for (const std::string& text :
       {std::string(), std::string("a < b, <tool, <tool_call é"), kCall, kPing,
        "I look it up.\n" + kCall, "<" + kPing, kCall + "\n" + kPing, kCall + kCall + " " + kPing})
    BOOST_TEST(language.has(text), text);
  for (const std::string& text :
       {kCall + "x", kCall + "\n", std::string("<tool_call>"), std::string("x<tool_call>y"),
        kCall.substr(0, kCall.size() - 1), "<tool_call>" + kCall,
        std::string("<tool_call>{\"name\":\"other\",\"arguments\":{}}</tool_call>"),
        std::string("<tool_call>{\"name\":\"weather\",\"arguments\":{}}</tool_call>"),
        std::string("<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":7}}</tool_call>"),
        std::string("<tool_call>{\"name\":\"ping\",\"arguments\":{\"a\":1}}</tool_call>"),
        std::string("<tool_call>{\"name\":\"ping\",\"arguments\":[]}</tool_call>"),
        std::string("<tool_call>{\"arguments\":{},\"name\":\"ping\"}</tool_call>")})
    BOOST_TEST(!language.has(text), text);
}

BOOST_AUTO_TEST_CASE(calls_that_must_come_begin_the_answer) {
  Answers language(hermes(ToolGrammar::Calls::kAlways));
  BOOST_TEST(language.has(kCall));
  BOOST_TEST(language.has(kPing + "\n" + kCall));
  BOOST_TEST(!language.has(""));
  BOOST_TEST(!language.begins("I"));
  BOOST_TEST(!language.begins("\n<"));
}

BOOST_AUTO_TEST_CASE(one_call_ends_an_answer_that_may_have_no_more) {
  ToolGrammar tools = hermes(ToolGrammar::Calls::kMaybe);
  tools.many = false;
  Answers language(tools);
  BOOST_TEST(language.has("x" + kCall));
  BOOST_TEST(!language.begins("x" + kCall + "\n"));
}

BOOST_AUTO_TEST_CASE(without_calls_no_call_begins) {
  Answers language(hermes(ToolGrammar::Calls::kNever));
  BOOST_TEST(language.has("a <tool_call is no call"));
  BOOST_TEST(language.begins("a <tool_call"));
  BOOST_TEST(!language.begins("a <tool_call>"));
  Answers plain(llama(ToolGrammar::Calls::kNever));
  BOOST_TEST(plain.has("{\"number\": 1}"));
  BOOST_TEST(!plain.begins("{\"name\""));
  BOOST_TEST(plain.has("x {\"name\": 1}"));
}

BOOST_AUTO_TEST_CASE(a_call_without_a_wrapper_begins_the_answer_or_is_text) {
  Answers language(llama(ToolGrammar::Calls::kMaybe));
  const std::string call = R"({"name": "weather", "parameters": {"city": "Oslo"}})";
  BOOST_TEST(language.has(call));
  BOOST_TEST(language.has(std::string(1, kControlByte) + "<|python_tag|>" + call));
  BOOST_TEST(language.has("{\n \"name\": \"ping\", \"parameters\": {}}"));
  BOOST_TEST(language.has("{\"type\": 1}"));
  BOOST_TEST(language.has("Say " + call));
  BOOST_TEST(!language.begins(call + "x"));
  BOOST_TEST(!language.begins(call + ";"));
  BOOST_TEST(!language.begins("{\"name\": \"x"));
  BOOST_TEST(!language.begins("x" + std::string(1, kControlByte)));
}

BOOST_AUTO_TEST_CASE(control_tokens_open_and_close_calls_where_the_vocabulary_has_them) {
  Answers language(hermes(ToolGrammar::Calls::kMaybe));
  const std::string control(1, kControlByte);
  const std::string call =
      control + "<tool_call>{\"name\":\"ping\",\"arguments\":{}}" + control + "</tool_call>";
  BOOST_TEST(language.has(call));
  BOOST_TEST(language.has("text <" + call + call));
  BOOST_TEST(!language.begins("text" + control + "<x"));
  Answers never(hermes(ToolGrammar::Calls::kNever));
  BOOST_TEST(!never.begins(control + "<tool_call>"));
}

BOOST_AUTO_TEST_CASE(a_text_of_a_form_or_calls) {
  ToolGrammar tools = hermes(ToolGrammar::Calls::kMaybe);
  tools.form = {hs::Language::kJsonSchema,
                R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"]})",
                "response_format.json_schema.schema"};
  Answers language(tools);
  BOOST_TEST(language.has(R"({"a":"<tool_call>"})"));
  BOOST_TEST(language.has(kCall));
  BOOST_TEST(!language.has("x" + kCall));
  BOOST_TEST(!language.begins("x"));
  tools.form->text = R"({"type":"object","properties":{"a":{"not":{}}}})";
  BOOST_TEST(error_of(tools).param == "response_format.json_schema.schema.properties.a.not");
}

BOOST_AUTO_TEST_CASE(arguments_are_objects_whatever_else_the_schema_allows) {
  ToolGrammar tools = hermes(ToolGrammar::Calls::kAlways);
  tools.functions = {
      {"f",
       R"({"anyOf":[{"type":"integer"},{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}]})",
       true, "p"},
      {"g", "{}", true, "q"}};
  Answers language(tools);
  BOOST_TEST(language.has(R"(<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>)"));
  BOOST_TEST(!language.begins(R"(<tool_call>{"name":"f","arguments":1)"));
  BOOST_TEST(language.has(R"(<tool_call>{"name":"g","arguments":{"x":[1]}}</tool_call>)"));
  BOOST_TEST(!language.begins(R"(<tool_call>{"name":"g","arguments":[)"));
  tools.functions = {{"f", R"({"type":"integer"})", true, "p"}};
  BOOST_TEST(error_of(tools).param == "p");
}

BOOST_AUTO_TEST_CASE(keywords_that_are_not_taken_are_refused_only_in_strict_functions) {
  ToolGrammar tools = hermes(ToolGrammar::Calls::kAlways);
  const char* schema =
      R"({"type":"object","properties":{"a":{"type":"number","multipleOf":3}},"required":["a"]})";
  tools.functions = {{"f", schema, true, "tools[4].function.parameters"}};
  BOOST_TEST(error_of(tools).param == "tools[4].function.parameters.properties.a.multipleOf");
  tools.functions = {{"f", schema, false, "tools[4].function.parameters"}};
  Answers language(tools);
  BOOST_TEST(language.has(R"(<tool_call>{"name":"f","arguments":{"b":[2]}}</tool_call>)"));
  tools.functions = {{"f", R"({"type":"wrong"})", false, "tools[4].function.parameters"}};
  BOOST_TEST(error_of(tools).param == "tools[4].function.parameters.type");
}

BOOST_AUTO_TEST_CASE(masks_hold_what_single_tokens_do_and_answers_end_in_valid_calls) {
  constexpr unsigned kSeed = 21;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  std::mt19937 random(kSeed);
  std::vector<std::string> tokens = {""};
  for (int b = 0; b < 255; ++b) tokens.emplace_back(1, static_cast<char>(b));
  for (const char* piece : {"<tool_call>",
                            "</tool_call>",
                            "<tool",
                            "_call>",
                            "><",
                            "\n{\"",
                            "name\":",
                            "{\"name\": \"",
                            "\", \"arguments\": {",
                            "\"}}",
                            "\xFF<tool_call>",
                            "\xFF</tool_call>",
                            "\xFF<|python_tag|>",
                            "weather",
                            "ping",
                            "city",
                            "Os",
                            "lo\"",
                            "}}\n</",
                            "</tool_call>\n<",
                            "par",
                            "ameters",
                            " x",
                            "\"}, \"",
                            "é",
                            "日本"})
    tokens.emplace_back(piece);
  const auto vocabulary = std::make_shared<TokenTrie>(tokens);
  for (const auto calls :
       {ToolGrammar::Calls::kNever, ToolGrammar::Calls::kMaybe, ToolGrammar::Calls::kAlways}) {
    for (const ToolGrammar& tools : {hermes(calls), llama(calls)}) {
      const auto grammar =
          Grammar::make(vocabulary, {0}, hs::Language::kTools, tools.to_text(), false);
      BOOST_REQUIRE(grammar.has_value());
      for (int i = 0; i < 30; ++i) {
        Expr state = (*grammar)->start();
        std::string text;
        for (int k = 0; k < 60 && !(*grammar)->must_end(state); ++k) {
          const auto mask = (*grammar)->mask(state);
          BOOST_REQUIRE(mask.has_value());
          std::vector<int32_t> allowed;
          for (int32_t id = 1; id < vocabulary->vocabulary_size(); ++id) {
            if ((*mask)->has(id) != ((*grammar)->after(state, id) != kNoText))
              BOOST_FAIL("token '" << tokens[static_cast<size_t>(id)] << "' after '" << text
                                   << "'");
            if ((*mask)->has(id)) allowed.push_back(id);
          }
          BOOST_REQUIRE_MESSAGE(!allowed.empty() || (*mask)->has(0), text);
          if (allowed.empty()) break;
          // The longer pieces, so that calls come to their end.
          const int32_t id =
              random() % 3 == 0 ? allowed[random() % allowed.size()] : allowed.back();
          text += tokens[static_cast<size_t>(id)];
          state = (*grammar)->after(state, id);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(broken_texts_are_refused) {
  ExpressionPool pool;
  for (const char* text : {"", "[]", "{}", R"({"functions":[1]})", R"({"functions":{}})"})
    BOOST_TEST(!parse_tool_grammar(pool, text).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
