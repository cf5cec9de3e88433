// Proves that hostile bodies end in invalid_json with an offset and without an echo, and that
// limits hold.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "api/json_parser.h"

namespace hs {

BOOST_AUTO_TEST_SUITE(json_parser_tests)

BOOST_AUTO_TEST_CASE(ordinary_values) {
  const auto value =
      parse_json(R"( {"a":[1,-2,2.5,true,null,"\u00e9\ud83d\ude00"],"b":{"c":{}}} )");
  BOOST_REQUIRE(value);
  BOOST_TEST(value->dump() == R"({"a":[1,-2,2.5,true,null,"é😀"],"b":{"c":{}}})");
  BOOST_TEST(parse_json("\xEF\xBB\xBF{}").has_value());
}

BOOST_AUTO_TEST_CASE(the_last_duplicate_counts_also_for_objects) {
  BOOST_TEST(parse_json(R"({"a":{"x":1},"a":{"y":2}})")->dump() == R"({"a":{"y":2}})");
}

BOOST_AUTO_TEST_CASE(invalid_texts_have_an_offset_and_no_echo) {
  const std::string secret = "sesame";
  for (const std::string& text :
       {std::string(), std::string("{"), secret, "{\"a\":" + secret + "}", std::string("{} {}"),
        std::string("[1,]"), std::string("{\"a\":NaN}"), std::string("[Infinity]"),
        std::string("[1e400]"), std::string("/* c */ {}"), std::string("[\"\xff\xfe\"]"),
        std::string("[\"\xc0\x80\"]"), std::string("[\"\\ud800\"]"), std::string("{\0}", 3),
        std::string("[\"a\nb\"]")}) {
    const auto value = parse_json(text);
    BOOST_TEST_CONTEXT(text) {
      BOOST_REQUIRE(!value);
      BOOST_TEST(value.error().code == "invalid_json");
      BOOST_TEST(value.error().message.find("byte ") != std::string::npos);
      BOOST_TEST(value.error().message.find(secret) == std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_CASE(depth_is_limited_exactly) {
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  BOOST_TEST(parse_json(nested(5), {.depth_max = 5}).has_value());
  BOOST_TEST(!parse_json(nested(6), {.depth_max = 5}));
  BOOST_TEST(!parse_json(nested(100'000)));
  BOOST_TEST(!parse_json(std::string(100'000, '[')));
}

BOOST_AUTO_TEST_CASE(the_number_of_values_is_limited) {
  BOOST_TEST(parse_json("[1,2,3]", {.values_max = 4}).has_value());
  BOOST_TEST(!parse_json("[1,2,3,4]", {.values_max = 4}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
