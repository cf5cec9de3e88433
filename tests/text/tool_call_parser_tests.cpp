// Proves that calls are found in an answer however it is cut into pieces, and that nothing of a
// call's wrapper comes out as text.
#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <vector>

#include "text/tool_call_parser.h"
#include "text/unicode.h"

namespace hs {

namespace {

using Piece = ToolCallParser::Piece;

struct Call {
  std::string name;
  std::string arguments;
  bool complete = false;
  bool operator==(const Call&) const = default;
};

struct Answer {
  std::string text;
  std::vector<Call> calls;
  bool complete = false;
  bool operator==(const Answer&) const = default;
};

void take(const std::vector<Piece>& pieces, Answer& answer) {
  for (const Piece& piece : pieces) {
    switch (piece.kind) {
      case Piece::Kind::kText:
        BOOST_TEST(!piece.text.empty());
        answer.text += piece.text;
        break;
      case Piece::Kind::kCall:
        answer.calls.push_back({piece.text, "", false});
        break;
      case Piece::Kind::kArguments:
        BOOST_REQUIRE(!answer.calls.empty());
        BOOST_TEST(is_valid_utf8(piece.text));
        answer.calls.back().arguments += piece.text;
        break;
      case Piece::Kind::kEnd:
        answer.calls.back().complete = true;
        break;
    }
  }
}

// `cuts`: where a piece ends, in order.
Answer parse(const ToolFormat& format, bool only_first, std::string_view text,
             const std::vector<size_t>& cuts) {
  ToolCallParser parser(format, only_first);
  Answer answer;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    take(parser.push(text.substr(begin, cut - begin)), answer);
    begin = cut;
  }
  take(parser.push(text.substr(begin)), answer);
  take(parser.finish(), answer);
  answer.complete = parser.complete();
  BOOST_TEST(parser.n_calls() == answer.calls.size());
  return answer;
}

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

// The same whole, cut at every place, and one character at a time.
Answer parse_cut(const ToolFormat& format, bool only_first, const std::string& text) {
  const Answer whole = parse(format, only_first, text, {});
  std::vector<size_t> all;
  for (size_t i = 1; i < text.size(); ++i)
    if (begins_character(text[i])) all.push_back(i);
  for (const size_t cut : all)
    BOOST_TEST((parse(format, only_first, text, {cut}) == whole), text << " cut at " << cut);
  BOOST_TEST((parse(format, only_first, text, all) == whole), text << " in characters");
  return whole;
}

const std::string kWeather =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ås }{ \\\" \\\\\", "
    "\"a\": [{}, [\"]\"]]}}\n</tool_call>";
const std::string kWeatherArguments = "{\"city\": \"Ås }{ \\\" \\\\\", \"a\": [{}, [\"]\"]]}";
const std::string kPing = "<tool_call>{\"name\":\"ping\",\"arguments\":{}}</tool_call>";

}  // namespace

BOOST_AUTO_TEST_SUITE(tool_call_parser_tests)

BOOST_AUTO_TEST_CASE(a_text_without_calls_is_a_text) {
  for (const std::string text : {"", "Hello", " a <b> < \n", "<tool_call", "<tool_cal l>",
                                 "é日本 <", "\n\n  \n", "</tool_call>", "{\"name\": \"x\"}"}) {
    const Answer answer = parse_cut(hermes_tools(), false, text);
    BOOST_TEST(answer.text == text);
    BOOST_TEST(answer.calls.empty());
    BOOST_TEST(!answer.complete);
  }
}

BOOST_AUTO_TEST_CASE(calls_are_found_and_their_wrappers_are_not_told) {
  const Answer one = parse_cut(hermes_tools(), false, kWeather);
  BOOST_TEST(one.text == "");
  BOOST_TEST((one.calls == std::vector<Call>{{"weather", kWeatherArguments, true}}));
  BOOST_TEST(one.complete);
  const Answer two = parse_cut(hermes_tools(), true, kPing + "\n" + kWeather);
  BOOST_TEST(two.text == "");
  BOOST_TEST(
      (two.calls == std::vector<Call>{{"ping", "{}", true}, {"weather", kWeatherArguments, true}}));
}

BOOST_AUTO_TEST_CASE(a_text_before_calls_stays_without_the_space_between) {
  const Answer answer =
      parse_cut(hermes_tools(), false, "I look\nit up: <\n\n" + kPing + "\n" + kPing + "\n");
  BOOST_TEST(answer.text == "I look\nit up: <");
  BOOST_TEST(answer.calls.size() == 2U);
  BOOST_TEST(answer.complete);
  BOOST_TEST(parse_cut(hermes_tools(), false, "\n \n" + kPing).text == "");
}

BOOST_AUTO_TEST_CASE(a_call_that_was_cut_off_shows_no_wrapper) {
  for (size_t n = std::string("<tool_call>").size(); n < kWeather.size(); ++n) {
    if (!begins_character(kWeather[n])) continue;
    const Answer answer = parse_cut(hermes_tools(), false, "x " + kWeather.substr(0, n));
    BOOST_TEST(answer.text == "x");
    for (const Call& call : answer.calls) {
      BOOST_TEST(call.name == "weather");
      BOOST_TEST(kWeatherArguments.starts_with(call.arguments));
      BOOST_TEST(call.complete == (call.arguments == kWeatherArguments));
      BOOST_TEST(answer.complete == call.complete);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_wrapper_around_something_else_is_text) {
  for (const std::string text :
       {"<tool_call>hello</tool_call>", "a <tool_call>{\"name\": 5}</tool_call> b",
        "<tool_call>{\"name\": \"f\", \"parameters\": {}}", "<tool_call>{\"name\": \"a\\\"b\", x",
        "<tool_call>[]", "<tool_call>{\"name\":\"\",\"arguments\":{}}"})
    BOOST_TEST(parse_cut(hermes_tools(), false, text).text == text);
  const std::string in_json = R"({"a": "<tool_call>{\"name\"}"})";
  BOOST_TEST(parse_cut(hermes_tools(), true, in_json).text == in_json);
  const std::string long_header = "<tool_call>{\"name\": \"" + std::string(3000, 'f') + "\", ";
  BOOST_TEST(parse(hermes_tools(), false, long_header, {}).text == long_header);
  const Answer behind = parse_cut(hermes_tools(), false, kPing + " and " + kPing);
  BOOST_TEST(behind.text == " and");
  BOOST_TEST(behind.calls.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_call_without_a_wrapper_begins_the_answer) {
  const std::string call = "{\"name\": \"f\", \"parameters\": {\"a\": {}}}";
  for (const std::string before : {"", " ", "\n", "<|python_tag|>", "<|python_tag|> "}) {
    const Answer answer = parse_cut(llama_tools(), false, before + call);
    BOOST_TEST(answer.text == "");
    BOOST_TEST((answer.calls == std::vector<Call>{{"f", "{\"a\": {}}", true}}));
    BOOST_TEST(answer.complete);
  }
  for (const std::string& text :
       {"x" + call, std::string("{\"type\": 1}"), std::string("{"), std::string("<|python"),
        std::string("<|python_tag|>print(1)"), std::string("{\"name\": 1}")}) {
    const Answer answer = parse_cut(llama_tools(), false, text);
    BOOST_TEST(answer.text == text);
    BOOST_TEST(answer.calls.empty());
  }
}

BOOST_AUTO_TEST_CASE(any_pieces_in_any_order_are_read_alike_however_they_are_cut) {
  constexpr unsigned kSeed = 5;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  std::mt19937 random(kSeed);
  const std::vector<std::string> pieces = {"<tool_call>",
                                           "</tool_call>",
                                           "<tool",
                                           "<",
                                           "{",
                                           "}",
                                           "[",
                                           "]",
                                           "\"name\"",
                                           ":",
                                           "\"f\"",
                                           ",",
                                           "\"arguments\"",
                                           "\"parameters\"",
                                           " ",
                                           "\n",
                                           "\\",
                                           "\"",
                                           "é",
                                           "x",
                                           kPing,
                                           kWeather,
                                           "<|python_tag|>",
                                           std::string(300, ' '),
                                           "{\"name\":\"f\",\"arguments\":{"};
  for (int i = 0; i < 400; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += pieces[random() % pieces.size()];
    const ToolFormat& format = random() % 2 == 0 ? hermes_tools() : llama_tools();
    const bool only_first = random() % 2 == 0;
    const Answer whole = parse(format, only_first, text, {});
    std::vector<size_t> cuts;
    for (size_t at = 1; at < text.size(); ++at)
      if (begins_character(text[at]) && random() % 3 != 0) cuts.push_back(at);
    BOOST_TEST((parse(format, only_first, text, cuts) == whole), text);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
