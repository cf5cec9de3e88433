// Proves that what the API writes is valid JSON in valid UTF-8, whatever bytes come in: a parser of
// another make reads it back.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "api/json_writer.h"

namespace hs {
namespace {

std::string to_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(json_writer_tests)

BOOST_AUTO_TEST_CASE(valid_text_comes_back_unchanged) {
  std::string all;
  for (char c = 0; c < 127; ++c) all += c;
  for (const std::string& text : {all, std::string("é 終 😀 \xF4\x8F\xBF\xBF \x7F"), std::string()})
    BOOST_TEST(nlohmann::json::parse(to_json(text)).get<std::string>() == text);
}

BOOST_AUTO_TEST_CASE(broken_utf8_becomes_replacement_characters) {
  BOOST_TEST(to_json("a\xFF\xFE") == "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
  for (const char* text :
       {"\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xF0\x80\x80\x80", "\x80"})
    BOOST_TEST(utf8_length(text) == 0U);
}

BOOST_AUTO_TEST_CASE(random_bytes_always_give_valid_json) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 24, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    BOOST_REQUIRE_MESSAGE(nlohmann::json::accept(to_json(bytes)),
                          "seed " << kSeed << " round " << i);
    BOOST_REQUIRE(nlohmann::json::parse(to_json(bytes)).get<std::string>() == to_valid_utf8(bytes));
  }
}

BOOST_AUTO_TEST_CASE(numbers_read_back_exactly_and_are_never_infinite) {
  for (const float value : {0.0F, -0.5F, -1.17549435e-38F, 3.4e38F, -12.345678F, 1e20F}) {
    std::string out;
    append_json_number(out, value);
    BOOST_TEST(nlohmann::json::parse(out).get<float>() == value);
  }
  for (const float value :
       {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::string out;
    append_json_number(out, value);
    BOOST_TEST(out == "-9999.0");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
