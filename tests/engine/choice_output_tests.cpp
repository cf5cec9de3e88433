// A choice's text never shows a part of a stop string or of a character, its log-probabilities come
// with the text they belong to, and it ends for the right reason.
#include <boost/test/unit_test.hpp>

#include "engine/choice_output.h"
#include "engine/fakes.h"

using namespace hs;
using namespace hs::test;

namespace {

constexpr int32_t letter(char c) {
  return 3 + (c - 'a');
}

SampledToken token(int32_t id) {
  SampledToken result;
  result.id = id;
  result.logprob = -static_cast<float>(id);
  return result;
}

struct OutputFixture {
  FakeTokenizer tokenizer;
  OutputRules rules{.stop_ids = {kEos}, .stops = {}, .max_tokens = 100, .n_logprobs = 0};

  std::vector<int32_t> ids(const ChoiceOutput::Delta& delta) {
    std::vector<int32_t> result;
    for (const TokenLogprob& logprob : delta.logprobs) result.push_back(logprob.id);
    return result;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(choice_output_tests, OutputFixture)

BOOST_AUTO_TEST_CASE(tokens_become_text_with_their_logprobs) {
  ChoiceOutput output(tokenizer, rules);
  const ChoiceOutput::Delta delta = output.push(token(letter('h')));
  BOOST_TEST(delta.text == "h");
  BOOST_TEST((ids(delta) == std::vector{letter('h')}));
  BOOST_TEST(delta.logprobs[0].logprob == -static_cast<float>(letter('h')));
  BOOST_TEST(!delta.finish);
  BOOST_TEST(output.n_tokens() == 1);
}

BOOST_AUTO_TEST_CASE(the_tokens_of_one_character_come_together) {
  ChoiceOutput output(tokenizer, rules);
  BOOST_TEST(output.push(token(kEuro[0])).empty());
  BOOST_TEST(output.push(token(kEuro[1])).empty());
  const ChoiceOutput::Delta delta = output.push(token(kEuro[2]));
  BOOST_TEST(delta.text == "€");
  BOOST_TEST((ids(delta) == std::vector{kEuro[0], kEuro[1], kEuro[2]}));
}

BOOST_AUTO_TEST_CASE(a_stop_string_across_tokens_is_not_shown_nor_are_its_logprobs) {
  rules.stops = {"xyz"};
  ChoiceOutput output(tokenizer, rules);
  BOOST_TEST(output.push(token(letter('a'))).text == "a");
  BOOST_TEST(output.push(token(letter('x'))).empty());
  BOOST_TEST(output.push(token(letter('y'))).empty());
  const ChoiceOutput::Delta delta = output.push(token(letter('z')));
  BOOST_TEST(delta.text.empty());
  BOOST_TEST(delta.logprobs.empty());
  BOOST_TEST((delta.finish == FinishReason::kStop));
  BOOST_TEST(delta.stop == "xyz");
  BOOST_TEST(output.n_tokens() == 4);
}

BOOST_AUTO_TEST_CASE(a_held_back_text_is_shown_when_no_stop_string_comes_of_it) {
  rules.stops = {"xyz"};
  ChoiceOutput output(tokenizer, rules);
  output.push(token(letter('x')));
  const ChoiceOutput::Delta delta = output.push(token(letter('b')));
  BOOST_TEST(delta.text == "xb");
  BOOST_TEST((ids(delta) == std::vector{letter('x'), letter('b')}));
}

BOOST_AUTO_TEST_CASE(an_end_token_shows_what_was_held_back) {
  rules.stops = {"xyz"};
  ChoiceOutput output(tokenizer, rules);
  output.push(token(letter('x')));
  const ChoiceOutput::Delta delta = output.push(token(kEos));
  BOOST_TEST(delta.text == "x");
  BOOST_TEST((ids(delta) == std::vector{letter('x')}));  // none for the end token
  BOOST_TEST((delta.finish == FinishReason::kStop));
  BOOST_TEST(delta.stop.empty());
  BOOST_TEST(output.n_tokens() == 2);
}

BOOST_AUTO_TEST_CASE(half_a_character_at_the_end_becomes_a_replacement_character) {
  rules.max_tokens = 2;
  ChoiceOutput output(tokenizer, rules);
  output.push(token(letter('a')));
  const ChoiceOutput::Delta delta = output.push(token(kEuro[0]));
  BOOST_TEST(delta.text == "\uFFFD");
  BOOST_TEST((ids(delta) == std::vector{kEuro[0]}));
  BOOST_TEST((delta.finish == FinishReason::kLength));
}

BOOST_AUTO_TEST_CASE(a_stop_in_the_last_place_wins_over_the_length) {
  rules.max_tokens = 1;
  rules.stops = {"b"};
  BOOST_TEST((ChoiceOutput(tokenizer, rules).push(token(kEos)).finish == FinishReason::kStop));
  BOOST_TEST(
      (ChoiceOutput(tokenizer, rules).push(token(letter('b'))).finish == FinishReason::kStop));
  BOOST_TEST(
      (ChoiceOutput(tokenizer, rules).push(token(letter('c'))).finish == FinishReason::kLength));
}

BOOST_AUTO_TEST_CASE(special_tokens_are_shown_only_if_asked_for) {
  ChoiceOutput hiding(tokenizer, rules);
  BOOST_TEST(hiding.push(token(kBos)).text.empty());
  rules.skip_special_tokens = false;
  ChoiceOutput showing(tokenizer, rules);
  BOOST_TEST(showing.push(token(kBos)).text == "<0>");
}

BOOST_AUTO_TEST_CASE(without_logprobs_none_come) {
  rules.n_logprobs = -1;
  ChoiceOutput output(tokenizer, rules);
  BOOST_TEST(output.push(token(letter('a'))).logprobs.empty());
}

BOOST_AUTO_TEST_SUITE_END()
