// The allowed tokens are exactly those that keep a text inside the language, in every state that
// random texts pass, and texts made of them satisfy the schema.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "grammar/grammar.h"
#include "grammar_testing.h"

using hs::Expr;
using hs::Grammar;

namespace {

constexpr int32_t kEnd = 0;

std::shared_ptr<Grammar> make(const std::shared_ptr<const hs::TokenTrie>& vocabulary,
                              Grammar::Language language, const std::string& text) {
  auto made = Grammar::make(vocabulary, {kEnd}, language, text, false);
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  return *made;
}

// A text of allowed tokens, drawn; every mask on its way is held to what each token does alone.
std::string draw_text(Grammar& grammar, const hs::TokenTrie& vocabulary, std::mt19937& random,
                      int tokens_max, bool check) {
  Expr state = grammar.start();
  std::string text;
  for (int i = 0; i < tokens_max; ++i) {
    const auto mask = grammar.mask(state);
    BOOST_REQUIRE(mask.has_value());
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < vocabulary.vocabulary_size(); ++id) {
      if ((*mask)->has(id)) allowed.push_back(id);
      if (!check) continue;
      const bool possible =
          id == kEnd ? grammar.may_end(state) : grammar.after(state, id) != hs::kNoText;
      if ((*mask)->has(id) != possible)
        BOOST_FAIL("token '" << vocabulary.token_bytes(id) << "' after '" << text << "'");
    }
    BOOST_REQUIRE_MESSAGE(!allowed.empty(), "nothing goes on after '" << text << "'");
    const int32_t id =
        (*mask)->has(kEnd) && random() % 4 == 0 ? kEnd : allowed[random() % allowed.size()];
    if (id == kEnd) return text;
    text += vocabulary.token_bytes(id);
    state = grammar.after(state, id);
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(grammar_tests)

BOOST_AUTO_TEST_CASE(masks_hold_what_single_tokens_do) {
  constexpr unsigned kSeed = 11;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto vocabulary = hs::json_vocabulary(random, 600);
  const std::pair<Grammar::Language, std::string> languages[] = {
      {Grammar::Language::kJsonObject, ""},
      {Grammar::Language::kJsonSchema,
       R"({"type":"object","properties":{"name":{"type":"string","maxLength":9},"n":{"type":"integer","minimum":-20,"maximum":300},
           "list":{"type":"array","items":{"enum":["a","ab","abc"]}}},"required":["n"],"additionalProperties":{"type":"null"}})"},
      {Grammar::Language::kJsonSchema, R"({"type":"array","items":{"$ref":"#"}})"},
      {Grammar::Language::kRegex, "(true|[0-9.]+ )*x{2,5}"},
      {Grammar::Language::kRegex, ".*name.*"},
      {Grammar::Language::kChoice, R"(["true","the","then","é"])"},
  };
  for (const auto& [language, text] : languages) {
    const auto grammar = make(vocabulary, language, text);
    for (int i = 0; i < 12; ++i) draw_text(*grammar, *vocabulary, random, 40, true);
  }
}

BOOST_AUTO_TEST_CASE(texts_of_allowed_tokens_are_json) {
  constexpr unsigned kSeed = 12;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto vocabulary = hs::json_vocabulary(random, 2000);
  const auto grammar = make(vocabulary, Grammar::Language::kJsonObject, "");
  int n_complete = 0;
  for (int i = 0; i < 150; ++i) {
    const std::string text = draw_text(*grammar, *vocabulary, random, 400, false);
    if (text.empty()) continue;
    ++n_complete;
    BOOST_TEST(nlohmann::json::accept(text), text);
  }
  BOOST_TEST(n_complete > 8);
}

BOOST_AUTO_TEST_CASE(a_text_that_is_complete_can_only_end) {
  std::mt19937 random(1);
  const auto vocabulary = hs::json_vocabulary(random, 0);
  const auto grammar = make(vocabulary, Grammar::Language::kChoice, R"(["a"])");
  const Expr state = grammar->after(grammar->start(), 'a' + 1);
  BOOST_TEST(grammar->must_end(state));
  BOOST_TEST(grammar->may_end(state));
  const auto mask = grammar->mask(state);
  for (int32_t id = 0; id < vocabulary->vocabulary_size(); ++id)
    BOOST_TEST((*mask)->has(id) == (id == kEnd));
  BOOST_TEST(grammar->after(state, kEnd) == state);
  BOOST_TEST(grammar->after(state, 'a' + 1) == hs::kNoText);
}

BOOST_AUTO_TEST_CASE(prepared_states_have_the_same_masks) {
  std::mt19937 random(3);
  const auto vocabulary = hs::json_vocabulary(random, 300);
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"string"}},"required":["a"]})";
  const auto prepared = make(vocabulary, Grammar::Language::kJsonSchema, schema);
  prepared->prepare(2'000'000);
  for (int i = 0; i < 10; ++i) draw_text(*prepared, *vocabulary, random, 60, true);
}

BOOST_AUTO_TEST_CASE(a_language_that_explodes_ends_in_an_error_and_not_in_the_machines_memory) {
  std::mt19937 random(5);
  const auto vocabulary = hs::json_vocabulary(random, 0);
  const auto grammar = make(vocabulary, Grammar::Language::kRegex, "[ab]*a[ab]{900}c");
  Expr state = grammar->start();
  bool refused = false;
  for (int i = 0; i < 20'000 && !refused; ++i) {
    const auto mask = grammar->mask(state);
    refused = !mask;
    if (refused) BOOST_TEST((mask.error().kind == hs::ErrorKind::kResourceExhausted));
    state = grammar->after(state, (random() % 2 == 0 ? 'a' : 'b') + 1);
  }
  BOOST_TEST(refused);
  BOOST_TEST(grammar->bytes() < size_t{256} << 20);
}

BOOST_AUTO_TEST_CASE(wrong_languages_are_refused) {
  std::mt19937 random(1);
  const auto vocabulary = hs::json_vocabulary(random, 0);
  const auto error_of = [&](Grammar::Language language, std::string_view text) {
    const auto made = Grammar::make(vocabulary, {kEnd}, language, text, false);
    return made ? std::string() : made.error().message;
  };
  BOOST_TEST(error_of(Grammar::Language::kRegex, "a(b") != "");
  BOOST_TEST(error_of(Grammar::Language::kRegex, "\xff") != "");
  BOOST_TEST(error_of(Grammar::Language::kChoice, "[]") != "");
  BOOST_TEST(error_of(Grammar::Language::kChoice, "[1]") != "");
  BOOST_TEST(error_of(Grammar::Language::kJsonSchema, "{") != "");
}

BOOST_AUTO_TEST_SUITE_END()
