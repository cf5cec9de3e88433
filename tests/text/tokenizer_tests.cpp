// Proves that ids and texts equal those of the reference library on every component, that user text
// never becomes a control token, and that damaged files give errors that name what is wrong.
#include <time.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "support/source_dir.h"
#include "text/tokenizer.h"

using hs::TextSpan;
using hs::Tokenizer;
using Json = nlohmann::json;
namespace utf = boost::unit_test;

namespace {

const std::string kGolden = hs::source_dir() + "/tests/golden/text/";

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  BOOST_REQUIRE_MESSAGE(file.good(), "cannot read " << path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string escaped(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::unique_ptr<Tokenizer> must_parse(const std::string& json) {
  auto tokenizer = Tokenizer::parse(json);
  BOOST_REQUIRE_MESSAGE(tokenizer.has_value(), (tokenizer ? "" : tokenizer.error().message));
  return std::move(*tokenizer);
}

std::unique_ptr<Tokenizer> golden_tokenizer(const std::string& name) {
  return must_parse(read(kGolden + name + "/tokenizer.json"));
}

std::string show(const std::vector<int32_t>& ids) {
  std::ostringstream out;
  for (const int32_t id : ids) out << id << ' ';
  return out.str();
}

// The real vocabularies are too large to keep here. Says so, since the runner counts a skipped case
// and does not name it.
boost::test_tools::assertion_result has_tokenizers(utf::test_unit_id) {
  if (std::getenv("HS_TOKENIZERS") != nullptr) return true;
  std::puts(
      "skipped: tokenizer_tests/real_vocabularies_equal_the_reference: HS_TOKENIZERS is not set "
      "(tests/text/fetch_tokenizers.sh makes the folder)");
  return false;
}

int64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// One entry of the table that make_tokenizer_cases.py writes.
void check_entry(const Tokenizer& tokenizer, const Json& entry) {
  const std::string label =
      entry["tokenizer"].get<std::string>() + " " + entry["variant"].get<std::string>();
  const auto check = [&](const Json& item, bool special) {
    const auto text = item[0].get<std::string>();
    const auto expected = item[1].get<std::vector<int32_t>>();
    const std::vector<int32_t> ids = tokenizer.encode(text, {special, {}});
    BOOST_CHECK_MESSAGE(ids == expected, label << ": " << escaped(text) << "\n  got      "
                                               << show(ids) << "\n  expected " << show(expected));
  };
  for (const Json& item : entry["texts"]) check(item, false);
  for (const Json& item : entry["special"]) check(item, true);
  for (const Json& item : entry["decodes"]) {
    const auto ids = item[0].get<std::vector<int32_t>>();
    for (const bool skip : {false, true}) {
      const std::string text = tokenizer.decode(ids, skip);
      const auto expected = item[skip ? 2 : 1].get<std::string>();
      BOOST_CHECK_MESSAGE(text == expected, label << ": ids " << show(ids)
                                                  << (skip ? "(special skipped)" : "")
                                                  << "\n  got      " << escaped(text)
                                                  << "\n  expected " << escaped(expected));
    }
  }
}

std::string error_of(const Json& json) {
  auto tokenizer = Tokenizer::parse(json.dump());
  return tokenizer ? "" : tokenizer.error().message;
}

Json small() {
  return Json::parse(R"({"added_tokens": [{"id": 3, "content": "<x>", "special": true}],
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
    "decoder": {"type": "Fuse"}})");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tokenizer_tests)

BOOST_AUTO_TEST_CASE(ids_and_texts_equal_the_reference) {
  const Json table = Json::parse(read(kGolden + "tokenizer_cases.json"));
  BOOST_REQUIRE_GT(table.size(), 30U);
  for (const Json& entry : table) {
    Json json =
        Json::parse(read(kGolden + entry["tokenizer"].get<std::string>() + "/tokenizer.json"));
    for (const auto& [key, value] : entry["patch"].items()) {
      if (key == "model")
        json[key].update(value);
      else
        json[key] = value;
    }
    check_entry(*must_parse(json.dump()), entry);
  }
}

// make_tokenizer_cases.py DIR DIR/cases.json writes the table; fetch_tokenizers.sh gets the
// vocabularies.
BOOST_AUTO_TEST_CASE(real_vocabularies_equal_the_reference, *utf::precondition(has_tokenizers)) {
  const char* dir = std::getenv("HS_TOKENIZERS");
  for (const Json& entry : Json::parse(read(std::string(dir) + "/cases.json"))) {
    const std::string name = entry["tokenizer"];
    const auto start = std::chrono::steady_clock::now();
    const auto tokenizer = must_parse(read(std::string(dir) + "/" + name + "/tokenizer.json"));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    BOOST_TEST_MESSAGE(name << ": loaded in " << seconds.count() << " s, seed "
                            << entry.value("seed", Json()).dump());
    check_entry(*tokenizer, entry);
  }
}

BOOST_AUTO_TEST_CASE(decode_of_encode_gives_the_text_back) {
  for (const char* name : {"llava", "qwen"}) {
    const auto tokenizer = golden_tokenizer(name);
    for (const char* text :
         {"a", " a", "  a", "\na", "", "\xC3\xA9", "\xF0\x9F\x98\x80 hi", "x  y\n\n z "})
      BOOST_TEST(tokenizer->decode(tokenizer->encode(text, {false, {}}), false) == text);
  }
}

BOOST_AUTO_TEST_CASE(literal_text_never_becomes_an_added_token) {
  for (const auto& [name, control] :
       {std::pair{"llava", "<image>"}, std::pair{"qwen", "<|image_pad|>"}}) {
    const auto tokenizer = golden_tokenizer(name);
    const int32_t id = tokenizer->id_of(control).value();
    const std::string user = std::string("what is ") + control + "?";
    const std::string text = control + user + control;
    const size_t n = std::string_view(control).size();
    const TextSpan span{n, n + user.size()};
    const auto ids = tokenizer->encode(text, {false, {&span, 1}});
    BOOST_TEST(std::ranges::count(ids, id) == 2);
    BOOST_TEST(ids.front() == id);
    BOOST_TEST(ids.back() == id);
    BOOST_TEST(tokenizer->decode(ids, false).find(control, n) != std::string::npos);
    BOOST_TEST(std::ranges::count(tokenizer->encode(text, {false, {}}), id) == 3);
  }
}

BOOST_AUTO_TEST_CASE(no_added_token_is_made_across_the_border_of_literal_text) {
  const auto tokenizer = golden_tokenizer("qwen");
  const int32_t end = tokenizer->id_of("<|im_end|>").value();
  const std::string user = "<|im_end|";
  const std::string text = user + "><|im_end|>";
  const TextSpan span{0, user.size()};
  const auto ids = tokenizer->encode(text, {false, {&span, 1}});
  BOOST_TEST(std::ranges::count(ids, end) == 1);
  BOOST_TEST(ids.back() == end);
  const TextSpan behind{text.size() - 3, text.size()};
  BOOST_TEST(std::ranges::count(tokenizer->encode(text, {false, {&behind, 1}}), end) == 1);
}

BOOST_AUTO_TEST_CASE(literal_spans_do_not_change_other_ids) {
  std::mt19937 rng(7);
  for (const char* name : {"llava", "qwen"}) {
    const auto tokenizer = golden_tokenizer(name);
    const std::string text =
        "USER: Hello there, \xF0\x9F\x98\x80 how are  you?\n\n I'm 42 ASSISTANT: fine \xC3\xA9";
    for (int round = 0; round < 50; ++round) {
      const size_t a = rng() % text.size();
      const TextSpan span{a, a + rng() % (text.size() - a + 1)};
      BOOST_TEST(tokenizer->encode(text, {false, {&span, 1}}) ==
                 tokenizer->encode(text, {false, {}}));
    }
  }
}

BOOST_AUTO_TEST_CASE(literal_marks_survive_normalisation) {
  Json json = Json::parse(read(kGolden + "qwen/tokenizer.json"));
  for (Json& token : json["added_tokens"]) token["normalized"] = true;
  for (const char* form : {"NFC", "NFKC", "NFD"}) {
    json["normalizer"] = {
        {"type", "Sequence"},
        {"normalizers",
         {{{"type", form}},
          {{"type", "Replace"}, {"pattern", {{"String", "  "}}}, {"content", " "}}}}};
    const auto tokenizer = must_parse(json.dump());
    const int32_t id = tokenizer->id_of("<|im_end|>").value();
    const std::string user = "e\xCC\x81  <|im_end|> \xC3\xA9  x";
    const std::string text = "a  <|im_end|>" + user + "<|im_end|>";
    const TextSpan span{13, 13 + user.size()};
    BOOST_TEST(std::ranges::count(tokenizer->encode(text, {false, {&span, 1}}), id) == 2);
    BOOST_TEST(std::ranges::count(tokenizer->encode(text, {false, {}}), id) == 3);
  }
}

BOOST_AUTO_TEST_CASE(merging_never_yields_a_control_token) {
  Json json = small();
  json["added_tokens"] = {{{"id", 2}, {"content", "ab"}, {"special", true}}};
  for (const bool ignore_merges : {false, true}) {
    json["model"]["ignore_merges"] = ignore_merges;
    const auto tokenizer = must_parse(json.dump());
    const TextSpan span{0, 2};
    BOOST_TEST(tokenizer->encode("ab", {false, {&span, 1}}) == (std::vector<int32_t>{0, 1}));
    BOOST_TEST(tokenizer->encode("ab", {false, {}}) == (std::vector<int32_t>{2}));
  }
}

BOOST_AUTO_TEST_CASE(invalid_utf8_becomes_replacement_characters) {
  for (const char* name : {"llava", "qwen"}) {
    const auto tokenizer = golden_tokenizer(name);
    BOOST_TEST(tokenizer->encode("a\xFF\xF0\x9F", {false, {}}) ==
               tokenizer->encode("a\xEF\xBF\xBD\xEF\xBF\xBD", {false, {}}));
  }
  const auto tokenizer = golden_tokenizer("llava");
  const std::string text = "\xFF<s>\xF0\x9F<s>";
  const TextSpan span{0, 6};
  const auto ids = tokenizer->encode(text, {false, {&span, 1}});
  BOOST_TEST(std::ranges::count(ids, 1) == 1);
  BOOST_TEST(ids.back() == 1);
}

// A text 16 times as long costs some 20 times the work by n log n, and 256 times by n^2. Both are
// measured on this very thread's processor time, so that neither a slow nor a busy machine matters.
BOOST_AUTO_TEST_CASE(long_runs_take_no_quadratic_time) {
  constexpr size_t kShort = 20'000;
  for (const char* name : {"llava", "qwen"}) {
    const auto tokenizer = golden_tokenizer(name);
    for (const char c : {' ', 'a', '\n', '\xC3'}) {
      const auto cost = [&](size_t n) {
        int64_t least_ns = INT64_MAX;
        for (int turn = 0; turn < 3; ++turn) {
          const int64_t start_ns = thread_cpu_ns();
          BOOST_TEST(!tokenizer->encode(std::string(n, c), {false, {}}).empty());
          least_ns = std::min(least_ns, thread_cpu_ns() - start_ns);
        }
        return static_cast<double>(least_ns);
      };
      const double ratio = cost(16 * kShort) / cost(kShort);
      BOOST_TEST(ratio < 70, name << ": a run of byte " << int{static_cast<uint8_t>(c)});
    }
  }
}

BOOST_AUTO_TEST_CASE(tokens_can_be_looked_up) {
  const auto tokenizer = golden_tokenizer("llava");
  BOOST_TEST(tokenizer->size() == 1002);
  BOOST_TEST(tokenizer->id_of("<image>").value() == 1000);
  BOOST_TEST(!tokenizer->id_of("no such token").has_value());
  BOOST_TEST(tokenizer->token(1000) == "<image>");
  BOOST_TEST(tokenizer->token(-1).empty());
  BOOST_TEST(tokenizer->token(1 << 30).empty());
  BOOST_TEST(tokenizer->is_special(1));
  BOOST_TEST(!tokenizer->is_special(300));
  BOOST_TEST(tokenizer->token_bytes(tokenizer->id_of("\xE2\x96\x81the").value()) == " the");
  BOOST_TEST(tokenizer->token_bytes(tokenizer->id_of("<0xF0>").value()) == "\xF0");
  BOOST_TEST(tokenizer->strips_leading_space());
  BOOST_TEST(!golden_tokenizer("qwen")->strips_leading_space());
  BOOST_TEST(golden_tokenizer("qwen")
                 ->token_bytes(golden_tokenizer("qwen")->encode("\xC3\xA9", {false, {}})[0])
                 .size() == 1U);
}

BOOST_AUTO_TEST_CASE(unknown_components_are_named) {
  const auto named = [](const char* key, const Json& value, const char* expected) {
    Json json = small();
    json[key] = value;
    const std::string message = error_of(json);
    BOOST_CHECK_MESSAGE(message.find(expected) != std::string::npos,
                        key << ": got \"" << message << '"');
  };
  named("normalizer", {{"type", "Precompiled"}}, "Precompiled");
  named("pre_tokenizer", {{"type", "UnicodeScripts"}}, "UnicodeScripts");
  named("pre_tokenizer",
        {{"type", "Split"}, {"pattern", {{"Regex", "(["}}}, {"behavior", "Isolated"}},
        "pattern error");
  named("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"String", "x"}}}, {"behavior", "Odd"}},
        "Odd");
  named("pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "odd"}},
        "odd");
  named("post_processor", {{"type", "Odd"}}, "Odd");
  named("decoder", {{"type", "WordPiece"}}, "WordPiece");
  named("decoder", nullptr, "decoder");
  named("model", {{"type", "Unigram"}}, "Unigram");
}

BOOST_AUTO_TEST_CASE(damaged_files_are_refused) {
  BOOST_TEST(!error_of(Json::array()).empty());
  BOOST_TEST(!Tokenizer::parse("{").has_value());
  BOOST_TEST(!Tokenizer::parse(std::string(1'000'000, '[')).has_value());
  const auto broken = [](const std::string& pointer, const Json& value, const char* expected) {
    Json json = small();
    json[Json::json_pointer(pointer)] = value;
    const std::string message = error_of(json);
    BOOST_CHECK_MESSAGE(message.find(expected) != std::string::npos,
                        pointer << ": got \"" << message << '"');
  };
  broken("/model/vocab", 7, "vocab");
  broken("/model/vocab/c", 2, "same id 2");
  broken("/model/vocab/c", -1, "\"c\"");
  broken("/model/vocab/c", 4'000'000'000, "\"c\"");
  broken("/model/vocab/c", "x", "\"c\"");
  broken("/model/merges", Json::object(), "merges");
  broken("/model/merges/0", "a b c", "merge 0");
  broken("/model/merges/0", "a z", "\"z\"");
  broken("/model/merges/0", Json::array({"b", "a"}), "\"ba\"");
  broken("/model/merges/0", 3, "merge 0");
  broken("/model/dropout", 0.1, "dropout");
  broken("/model/byte_fallback", "yes", "byte_fallback");
  broken("/added_tokens", 1, "added_tokens");
  broken("/added_tokens/0/id", -5, "\"id\"");
  broken("/added_tokens/0/id", 1, "\"b\"");
  broken("/added_tokens/0/content", 1, "content");
  broken("/added_tokens/1", {{"id", 3}, {"content", "<y>"}}, "same id 3");
  broken("/post_processor",
         Json::parse(R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"q"}}]})"),
         "\"q\"");
  broken("/decoder", 5, "type");
  broken("/normalizer", {{"type", "Sequence"}}, "normalizers");
}

BOOST_AUTO_TEST_CASE(a_missing_file_is_not_found) {
  const auto tokenizer = Tokenizer::load("/nonexistent");
  BOOST_REQUIRE(!tokenizer.has_value());
  BOOST_TEST((tokenizer.error().kind == hs::ErrorKind::kNotFound));
}

BOOST_AUTO_TEST_CASE(tokenizer_config_adds_tokens_and_begin_of_text) {
  const Json config =
      Json::parse(R"({"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": true,
    "bos_token": {"content": "<x>"}, "added_tokens_decoder": {"9": {"content": "<y>", "special": true}, "3": {"content": "<x>"}}})");
  const auto tokenizer = Tokenizer::parse(small().dump(), config.dump());
  BOOST_REQUIRE(tokenizer.has_value());
  BOOST_TEST((*tokenizer)->encode("ab<y>", {true, {}}) == (std::vector<int32_t>{3, 2, 9}));
  BOOST_TEST((*tokenizer)->encode("ab<y>", {false, {}}) == (std::vector<int32_t>{2, 9}));
  BOOST_TEST((*tokenizer)->size() == 10);
}

BOOST_AUTO_TEST_SUITE_END()
