// Proves that streamed text is valid at every moment and joins to what decode() gives, and that
// stop strings are found and held back however the text is cut.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "support/source_dir.h"
#include "text/detokenizer.h"
#include "text/unicode.h"

using hs::Detokenizer;
using hs::StopMatcher;
using hs::Tokenizer;

namespace {

std::unique_ptr<Tokenizer> golden_tokenizer(const std::string& name, bool metaspace = false) {
  std::ifstream file(hs::source_dir() + "/tests/golden/text/" + name + "/tokenizer.json",
                     std::ios::binary);
  BOOST_REQUIRE(file.good());
  nlohmann::json json = nlohmann::json::parse(file);
  if (metaspace)
    json["decoder"] = {
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}};
  auto tokenizer = Tokenizer::parse(json.dump());
  BOOST_REQUIRE_MESSAGE(tokenizer.has_value(), (tokenizer ? "" : tokenizer.error().message));
  return std::move(*tokenizer);
}

std::vector<std::string> pushed(Detokenizer detokenizer, const std::vector<int32_t>& ids) {
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(detokenizer.push(id));
  out.push_back(detokenizer.finish());
  return out;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

// The output of a stop matcher on the whole text at once, found by looking at every end in turn.
std::pair<std::string, std::string> naive_stop(const std::string& text,
                                               const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string* best = nullptr;
    for (const std::string& stop : stops)
      if (std::string_view(text).substr(0, end).ends_with(stop) &&
          (best == nullptr || stop.size() > best->size()))
        best = &stop;
    if (best != nullptr) return {text.substr(0, end - best->size()), *best};
  }
  return {text, ""};
}

struct Stopped {
  std::string text;
  std::string stop;
};

Stopped run_stop(const std::vector<std::string>& pieces, const std::vector<std::string>& stops) {
  StopMatcher matcher(stops);
  Stopped result;
  for (const std::string& piece : pieces) {
    const StopMatcher::Output output = matcher.push(piece);
    result.text += output.text;
    if (output.stopped) {
      result.stop = output.stop;
      return result;
    }
  }
  result.text += matcher.finish();
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(detokenizer_tests)

BOOST_AUTO_TEST_CASE(bytes_of_an_emoji_come_out_together) {
  const auto tokenizer = golden_tokenizer("llava");
  std::vector<int32_t> ids;
  for (const char* byte : {"<0xF0>", "<0x9F>", "<0x98>", "<0x80>"})
    ids.push_back(tokenizer->id_of(byte).value());
  const auto parts = pushed(Detokenizer(*tokenizer, true), ids);
  BOOST_TEST(parts == (std::vector<std::string>{"", "", "", "\xF0\x9F\x98\x80", ""}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(invalid_bytes_become_one_replacement_character) {
  const auto tokenizer = golden_tokenizer("llava");
  const auto byte = [&](const char* name) { return tokenizer->id_of(name).value(); };
  BOOST_TEST(joined(pushed(Detokenizer(*tokenizer, true), {byte("<0x80>")})) ==
             hs::kReplacementChar);
  BOOST_TEST(joined(pushed(Detokenizer(*tokenizer, true), {byte("<0xF0>"), byte("<0x9F>")})) ==
             hs::kReplacementChar);
  const int32_t word = tokenizer->id_of("\u2581the").value();
  BOOST_TEST(joined(pushed(Detokenizer(*tokenizer, true), {byte("<0xF0>"), word})) ==
             std::string(hs::kReplacementChar) + " the");
}

BOOST_AUTO_TEST_CASE(split_emoji_of_a_byte_level_tokenizer_wait) {
  const auto tokenizer = golden_tokenizer("qwen");
  const std::string family = "\U0001F469\u200D\U0001F469\u200D\U0001F467";
  const auto ids = tokenizer->encode(family, {false, {}});
  BOOST_REQUIRE_GT(ids.size(), 5U);
  const auto parts = pushed(Detokenizer(*tokenizer, true), ids);
  for (const std::string& part : parts) BOOST_TEST(hs::is_valid_utf8(part));
  BOOST_TEST(joined(parts) == family);
}

BOOST_AUTO_TEST_CASE(the_leading_space_goes_only_at_the_start_of_a_text) {
  const auto tokenizer = golden_tokenizer("llava");
  const int32_t the = tokenizer->id_of("\u2581the").value();
  BOOST_TEST(joined(pushed(Detokenizer(*tokenizer, true), {the, the})) == "the the");
  BOOST_TEST(joined(pushed(Detokenizer(*tokenizer, true, Detokenizer::Start::kContinuation),
                           {the, the})) == " the the");
  BOOST_TEST(joined(pushed(Detokenizer(*tokenizer, true), {1, the})) == "the");
  BOOST_TEST(joined(pushed(Detokenizer(*tokenizer, false), {1, the})) == "<s> the");
}

BOOST_AUTO_TEST_CASE(special_tokens_are_skipped_on_request) {
  const auto tokenizer = golden_tokenizer("qwen");
  const int32_t end = tokenizer->id_of("<|im_end|>").value();
  BOOST_TEST(joined(pushed(Detokenizer(*tokenizer, true), {end})).empty());
  BOOST_TEST(joined(pushed(Detokenizer(*tokenizer, false), {end})) == "<|im_end|>");
}

BOOST_AUTO_TEST_CASE(unknown_ids_add_nothing) {
  const auto tokenizer = golden_tokenizer("qwen");
  BOOST_TEST(
      joined(pushed(Detokenizer(*tokenizer, true), {-1, tokenizer->size(), 1 << 30})).empty());
}

BOOST_AUTO_TEST_CASE(pieces_are_valid_and_join_to_decode) {
  const unsigned seed = std::random_device{}();
  BOOST_TEST_MESSAGE("seed " << seed);
  std::mt19937 rng(seed);
  for (const auto& [name, metaspace] :
       {std::pair{"llava", false}, std::pair{"llava", true}, std::pair{"qwen", false}}) {
    const auto tokenizer = golden_tokenizer(name, metaspace);
    const bool byte_tokens = std::string(name) == "llava";
    for (int round = 0; round < 3000; ++round) {
      std::vector<int32_t> ids(1 + rng() % 20);
      // Among the first ids are the single bytes.
      for (int32_t& id : ids)
        id = static_cast<int32_t>(
            rng() % (rng() % 2 == 0 ? 300U : static_cast<unsigned>(tokenizer->size())));
      const bool skip = rng() % 2 == 0;
      const auto parts = pushed(Detokenizer(*tokenizer, skip), ids);
      for (const std::string& part : parts)
        BOOST_REQUIRE_MESSAGE(hs::is_valid_utf8(part), "seed " << seed);
      const std::string whole = tokenizer->decode(ids, skip);
      // Where a run of byte tokens is broken, decode() gives up its good characters too (see
      // detokenizer.h); Metaspace leaves the names of byte tokens as they are.
      const bool broken = byte_tokens && whole.find(hs::kReplacementChar) != std::string::npos;
      if (!broken)
        BOOST_REQUIRE_MESSAGE(joined(parts) == whole, "seed " << seed << ": \"" << joined(parts)
                                                              << "\" is not \"" << whole << '"');
    }
  }
}

BOOST_AUTO_TEST_CASE(text_goes_through_encode_and_streaming_unchanged) {
  for (const char* name : {"llava", "qwen"}) {
    const auto tokenizer = golden_tokenizer(name);
    for (const std::string text :
         {"a", " a", "  a ", "\n\na", "caf\u00E9 \U0001F600 \u4E2D\u6587", "x \u05D0 \u0645"})
      BOOST_TEST(joined(pushed(Detokenizer(*tokenizer, true),
                               tokenizer->encode(text, {true, {}}))) == text);
  }
}

BOOST_AUTO_TEST_CASE(a_stop_string_across_pieces_leaves_nothing_behind) {
  const Stopped result = run_stop({"abc<|en", "d|>xyz"}, {"<|end|>"});
  BOOST_TEST(result.text == "abc");
  BOOST_TEST(result.stop == "<|end|>");
}

BOOST_AUTO_TEST_CASE(what_may_begin_a_stop_is_held_back_and_released) {
  StopMatcher matcher({"END"});
  BOOST_TEST(matcher.push("xE").text == "x");
  BOOST_TEST(matcher.push("N").text.empty());
  BOOST_TEST(matcher.push("E").text == "EN");
  BOOST_TEST(matcher.push("N").text.empty());
  BOOST_TEST(matcher.finish() == "EN");
}

BOOST_AUTO_TEST_CASE(the_longest_of_the_stops_that_end_first_counts) {
  const Stopped result = run_stop({"aaab"}, {"aab", "ab"});
  BOOST_TEST(result.text == "a");
  BOOST_TEST(result.stop == "aab");
}

BOOST_AUTO_TEST_CASE(after_a_stop_there_is_no_more_output) {
  StopMatcher matcher({" "});
  BOOST_TEST(matcher.push("a b").text == "a");
  const StopMatcher::Output output = matcher.push("c");
  BOOST_TEST(output.stopped);
  BOOST_TEST(output.text.empty());
  BOOST_TEST(matcher.finish().empty());
}

BOOST_AUTO_TEST_CASE(without_stops_everything_passes_at_once) {
  StopMatcher matcher({});
  BOOST_TEST(matcher.push("abc").text == "abc");
  BOOST_TEST(matcher.finish().empty());
}

BOOST_AUTO_TEST_CASE(a_stop_of_several_bytes_never_splits_a_character) {
  StopMatcher matcher({"\u7D42"});
  const StopMatcher::Output output =
      matcher.push("\u7D43");  // shares its first two bytes with the stop
  BOOST_TEST(output.text == "\u7D43");
  BOOST_TEST(run_stop({"x\u7D42y"}, {"\u7D42"}).text == "x");
}

BOOST_AUTO_TEST_CASE(matches_equal_a_naive_search_under_random_cuts) {
  const unsigned seed = std::random_device{}();
  BOOST_TEST_MESSAGE("seed " << seed);
  std::mt19937 rng(seed);
  const auto random_text = [&](size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += "abc"[rng() % 3];
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops(1 + rng() % 4);
    for (std::string& stop : stops) stop = random_text(1 + rng() % 5);
    const std::string text = random_text(rng() % 30);
    std::vector<std::string> pieces;
    for (size_t done = 0; done < text.size();) {
      const size_t n = std::min<size_t>(1 + rng() % 7, text.size() - done);
      pieces.push_back(text.substr(done, n));
      done += n;
    }
    const auto [expected_text, expected_stop] = naive_stop(text, stops);
    const Stopped result = run_stop(pieces, stops);
    BOOST_REQUIRE_MESSAGE(result.text == expected_text && result.stop == expected_stop,
                          "seed " << seed << " text " << text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
