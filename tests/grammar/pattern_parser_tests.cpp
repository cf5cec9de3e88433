// Patterns match what ECMAScript's regular expressions match; what is not regular is refused.
#include <boost/test/unit_test.hpp>
#include <random>
#include <regex>
#include <string>

#include "grammar/pattern_parser.h"
#include "grammar_testing.h"

using hs::ExpressionPool;

namespace {

hs::Result<hs::Expr> parse(ExpressionPool& pool, std::string_view pattern, bool whole = true) {
  return hs::parse_pattern(pool, pattern, {.whole = whole},
                           [&](const hs::CodePointSet& set) { return hs::utf8_of(pool, set); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pattern_parser_tests)

BOOST_AUTO_TEST_CASE(random_texts_match_as_in_the_standard_library) {
  constexpr unsigned kSeed = 21;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  std::mt19937 random(kSeed);
  const char* patterns[] = {
      "a*b?c+",        "(ab|ba)*",     "[a-c]{2,4}",     "[^b]+b",    "a{3}|b{2,}",
      "(?:a|b(c))*?",  "\\w\\d?\\s",   "[\\w-]+",        "a.c",       "\\x61\\u0062",
      "(a|ab)(c|bcd)", "((a?b)*c)+|d", "[ab][^ab]?[c-]", "\\$\\^\\.", "(|a)b"};
  const std::string alphabet = "aabbccd0 -.$^";
  for (const char* pattern : patterns) {
    ExpressionPool pool;
    const auto whole = parse(pool, pattern), part = parse(pool, pattern, false);
    BOOST_REQUIRE_MESSAGE(whole && part, pattern);
    const std::regex reference(pattern, std::regex::ECMAScript);
    for (int i = 0; i < 400; ++i) {
      std::string text;
      for (size_t n = random() % 8; n > 0; --n) text += alphabet[random() % alphabet.size()];
      BOOST_TEST(hs::matches(pool, *whole, text) == std::regex_match(text, reference),
                 pattern << " on " << text);
      BOOST_TEST(hs::matches(pool, *part, text) == std::regex_search(text, reference),
                 pattern << " in " << text);
    }
  }
}

BOOST_AUTO_TEST_CASE(anchors_hold_an_end_of_the_text) {
  ExpressionPool pool;
  const auto begins = parse(pool, "^ab", false), ends = parse(pool, "ab$|^c$", false);
  BOOST_TEST(hs::matches(pool, *begins, "abx"));
  BOOST_TEST(!hs::matches(pool, *begins, "xab"));
  BOOST_TEST(hs::matches(pool, *ends, "xab"));
  BOOST_TEST(!hs::matches(pool, *ends, "abx"));
  BOOST_TEST(hs::matches(pool, *ends, "c"));
  BOOST_TEST(!hs::matches(pool, *ends, "cc"));
}

BOOST_AUTO_TEST_CASE(a_character_is_a_code_point) {
  ExpressionPool pool;
  const auto three = parse(pool, ".{3}"), range = parse(pool, "[à-ü日-本]+");
  BOOST_TEST(hs::matches(pool, *three, "é日😀"));
  BOOST_TEST(!hs::matches(pool, *three, "é日"));
  BOOST_TEST(!hs::matches(pool, *three, "\xc3\xa9\xff"));
  BOOST_TEST(hs::matches(pool, *range, "éü日"));
  BOOST_TEST(!hs::matches(pool, *range, "z"));
}

BOOST_AUTO_TEST_CASE(what_is_no_regular_expression_is_refused) {
  for (const char* pattern :
       {"(",      ")",   "a)",   "[",        "[]",    "[b-a]",       "*",      "a**",
        "a{2,1}", "a{",  "a{x}", "a{99999}", "(?=a)", "(?<n>a)",     "\\1",    "\\b",
        "\\p{L}", "a^b", "a$b",  "\\",       "\\x1",  "\\u{110000}", "[\\d-z]"}) {
    ExpressionPool pool;
    BOOST_TEST(!parse(pool, pattern), pattern);
  }
  ExpressionPool pool;
  BOOST_TEST(!parse(pool, std::string(100, '(') + std::string(100, ')')));
}

BOOST_AUTO_TEST_SUITE_END()
