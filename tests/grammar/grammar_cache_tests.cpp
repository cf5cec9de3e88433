// A grammar that was asked for is found again, and the oldest ones are forgotten.
#include <boost/test/unit_test.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "grammar/grammar_cache.h"

using hs::Grammar;
using hs::GrammarCache;

namespace {

std::vector<std::string> letters() {
  std::vector<std::string> bytes = {""};
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(grammar_cache_tests)

BOOST_AUTO_TEST_CASE(the_same_text_gives_the_same_grammar) {
  GrammarCache cache(letters(), {0}, true);
  const auto one = cache.get(Grammar::Language::kRegex, "a+", true);
  BOOST_REQUIRE(one);
  BOOST_TEST(*one == *cache.get(Grammar::Language::kRegex, "a+", true));
  BOOST_TEST(*one != *cache.get(Grammar::Language::kRegex, "a+", false));
  BOOST_TEST(*one != *cache.get(Grammar::Language::kRegex, "a*", true));
  BOOST_TEST(!cache.get(Grammar::Language::kJsonSchema, "a+", true));
}

BOOST_AUTO_TEST_CASE(a_blank_may_begin_a_text_only_where_it_is_not_shown) {
  GrammarCache drops(letters(), {0}, true), keeps(letters(), {0}, false);
  const auto starts_with_blank = [](GrammarCache& cache, bool begins_text) {
    const auto grammar = *cache.get(Grammar::Language::kRegex, "a", begins_text);
    return grammar->after(grammar->start(), ' ' + 1) != hs::kNoText;
  };
  BOOST_TEST(starts_with_blank(drops, true));
  BOOST_TEST(!starts_with_blank(drops, false));
  BOOST_TEST(!starts_with_blank(keeps, true));
}

BOOST_AUTO_TEST_CASE(the_oldest_is_forgotten) {
  GrammarCache cache(letters(), {0}, false);
  const auto first = *cache.get(Grammar::Language::kRegex, "x", true);
  for (size_t i = 0; i < GrammarCache::kGrammarsMax; ++i)
    BOOST_REQUIRE(cache.get(Grammar::Language::kRegex, std::string(i + 1, 'a'), true));
  BOOST_TEST(first != *cache.get(Grammar::Language::kRegex, "x", true));
  BOOST_TEST(first->may_end(first->after(first->start(), 'x' + 1)));  // who has it keeps it
}

BOOST_AUTO_TEST_CASE(threads_may_ask_at_once) {
  GrammarCache cache(letters(), {0}, false);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        HS_CHECK(cache.get(Grammar::Language::kRegex,
                           std::string(static_cast<size_t>(i % 20 + 1), 'b'), true));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

BOOST_AUTO_TEST_SUITE_END()
