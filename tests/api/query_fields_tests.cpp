// Proves that query fields are read by name, within their bounds, and that nothing else passes.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>

#include "api/query_fields.h"

namespace hs {
namespace {

BOOST_AUTO_TEST_SUITE(query_fields_tests)

BOOST_AUTO_TEST_CASE(fields_are_decoded) {
  QueryReader query("name=a%2Fb+c&n=-5&&empty=");
  BOOST_TEST(query.text("name") == "a/b c");
  BOOST_TEST(query.integer("n", 0, -10, 10) == -5);
  BOOST_TEST(query.text("empty", "otherwise") == "otherwise");
  BOOST_TEST(query.integer("absent", 7, 0, 10) == 7);
  BOOST_TEST(query.status().has_value());
}

BOOST_AUTO_TEST_CASE(an_empty_query_has_nothing) {
  QueryReader query("");
  BOOST_TEST(query.text("a") == "");
  BOOST_TEST(query.status().has_value());
}

BOOST_AUTO_TEST_CASE(numbers_out_of_bounds_or_with_words_name_their_field) {
  for (const char* text : {"n=11", "n=-1", "n=5x", "n=5.0", "n=99999999999999999999", "n=%20"}) {
    QueryReader query(text);
    BOOST_TEST(query.integer("n", 3, 0, 10) == 3);
    BOOST_TEST_REQUIRE(!query.status().has_value());
    BOOST_TEST(query.status().error().param == "n");
  }
}

BOOST_AUTO_TEST_CASE(what_nobody_asked_for_is_an_error) {
  QueryReader query("known=1&other=2");
  query.text("known");
  BOOST_TEST_REQUIRE(!query.status().has_value());
  BOOST_TEST(query.status().error().code == "unknown_parameter");
  BOOST_TEST(query.status().error().param == "other");
}

BOOST_AUTO_TEST_CASE(broken_escapes_and_repetitions_are_errors) {
  for (const char* text : {"a=%", "a=%zz", "%4", "a=1&a=2"}) {
    QueryReader query(text);
    query.text("a");
    BOOST_TEST(!query.status().has_value());
  }
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_text_are_not_repeated_in_errors) {
  QueryReader query("%ff%fe=1");
  BOOST_TEST_REQUIRE(!query.status().has_value());
  BOOST_TEST(query.status().error().param == "\xEF\xBF\xBD\xEF\xBF\xBD");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs
