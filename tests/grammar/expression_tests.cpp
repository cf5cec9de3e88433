// Expressions describe the languages that their names say, and equal states are one node.
#include <boost/test/unit_test.hpp>
#include <string>

#include "grammar/expression.h"
#include "grammar_testing.h"

using hs::ByteSet;
using hs::Expr;
using hs::ExpressionPool;
using hs::matches;

BOOST_AUTO_TEST_SUITE(expression_tests)

BOOST_AUTO_TEST_CASE(sequences_options_and_repetitions_match_as_regular_expressions_do) {
  ExpressionPool pool;
  const Expr word = pool.one_of(ByteSet::range('a', 'z'));
  const Expr list =
      pool.sequence({word, pool.repeat(pool.sequence({pool.literal(","), word}), 1, 2),
                     pool.optional(pool.literal("!"))});
  for (const char* text : {"a,b", "a,b,c", "a,b!", "x,y,z!"})
    BOOST_TEST(matches(pool, list, text), text);
  for (const char* text : {"", "a", "a,", "a,b,c,d", "a,b!!", "A,b"})
    BOOST_TEST(!matches(pool, list, text), text);
}

BOOST_AUTO_TEST_CASE(a_difference_leaves_out_exactly_its_second_part) {
  ExpressionPool pool;
  const Expr word =
      pool.repeat(pool.one_of(ByteSet::range('a', 'c')), 1, ExpressionPool::kUnlimited);
  const Expr others = pool.except(word, pool.either({pool.literal("ab"), pool.literal("c")}));
  for (const char* text : {"a", "abc", "b", "cc", "ba"})
    BOOST_TEST(matches(pool, others, text), text);
  for (const char* text : {"ab", "c", ""}) BOOST_TEST(!matches(pool, others, text), text);
}

BOOST_AUTO_TEST_CASE(a_rule_may_contain_itself) {
  ExpressionPool pool;
  const Expr nested = pool.new_rule();
  pool.define(nested,
              pool.sequence({pool.literal("("), pool.any_number_of(nested), pool.literal(")")}));
  BOOST_TEST(!pool.begins_with_itself(nested));
  for (const char* text : {"()", "(())", "(()(()))"}) BOOST_TEST(matches(pool, nested, text), text);
  for (const char* text : {"", "(", "())", "()()"}) BOOST_TEST(!matches(pool, nested, text), text);
}

BOOST_AUTO_TEST_CASE(a_rule_that_begins_with_itself_is_found) {
  ExpressionPool pool;
  const Expr a = pool.new_rule(), b = pool.new_rule();
  pool.define(
      a, pool.either({pool.literal("x"), pool.sequence({pool.optional(pool.literal("y")), b})}));
  pool.define(b, pool.either({a, pool.literal("z")}));
  BOOST_TEST(pool.begins_with_itself(a));
  BOOST_TEST(pool.begins_with_itself(b));
}

BOOST_AUTO_TEST_CASE(equal_states_are_one_node) {
  ExpressionPool pool;
  const Expr string =
      pool.sequence({pool.literal("\""), pool.any_number_of(pool.one_of(ByteSet::range('a', 'z'))),
                     pool.literal("\"")});
  const auto after = [&](std::string_view text) {
    Expr state = string;
    for (const char c : text) state = pool.derivative(state, static_cast<uint8_t>(c));
    return state;
  };
  BOOST_TEST(after("\"a") == after("\"zzz"));
  BOOST_TEST(pool.loop(after("\"a")).has('q'));
  BOOST_TEST(!pool.loop(after("\"a")).has('"'));
  BOOST_TEST(after("\"a\"") == hs::kEmptyText);
}

BOOST_AUTO_TEST_CASE(long_literals_and_long_counts_take_no_deep_stack) {
  ExpressionPool pool;
  const std::string text(1 << 15, 'q');
  BOOST_TEST(matches(pool, pool.literal(text), text));
  const Expr many = pool.repeat(pool.literal("q"), 1000, 1 << 15);
  BOOST_TEST(matches(pool, many, text));
  BOOST_TEST(!matches(pool, many, text + "q"));
}

BOOST_AUTO_TEST_SUITE_END()
