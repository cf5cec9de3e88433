// Schemas describe the texts that satisfy them; what is not taken is refused at its place.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "grammar/json_schema.h"
#include "grammar_testing.h"

using hs::ExpressionPool;
using hs::matches;

namespace {

struct Case {
  std::string schema;
  std::vector<std::string> valid;
  std::vector<std::string> invalid;
};
std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.schema;
}

const std::vector<Case> kCases = {
    {R"({"type":"string"})",
     {R"("")", R"("a\n\"\\ é 日 \u00e9 \ud83d\ude00")"},
     {R"("a)", "\"a\nb\"", R"("\ud83d")", R"("\x")", "\"\xff\"", "1", "null"}},
    {R"({"type":"string","minLength":2,"maxLength":3})",
     {R"("ab")", R"("日本語")", R"("\n\u00e9")"},
     {R"("a")", R"("abcd")", R"("")"}},
    {R"({"type":"string","pattern":"^a[\"\\\\]+b$"})",
     {R"("a\"b")", R"("a\\\"b")"},
     {R"("ab")", R"("a"b")"}},
    {R"({"type":"string","pattern":"b+"})",
     {R"("b")", R"("abba")", R"("\nb")"},
     {R"("a")", R"("")"}},
    {R"({"type":"string","format":"date"})",
     {R"("2026-11-30")"},
     {R"("2026-13-01")", R"("26-1-1")"}},
    {R"({"type":"string","format":"date-time"})",
     {R"("2026-11-30T17:00:00Z")", R"("2026-11-30T23:59:59.5+01:00")"},
     {R"("2026-11-30")", R"("2026-11-30T24:00:00Z")"}},
    {R"({"type":"string","format":"uuid"})",
     {R"("123e4567-e89b-12d3-a456-426614174000")"},
     {R"("123")"}},
    {R"({"type":"string","format":"ipv4"})",
     {R"("192.168.0.255")"},
     {R"("256.1.1.1")", R"("1.2.3")"}},
    {R"({"type":"string","format":"email"})", {R"("a.b@example.org")"}, {R"("a@b")", R"("@x.y")"}},
    {R"({"type":"integer"})", {"0", "-7", "123456"}, {"01", "1.0", "1e3", "+1", "-"}},
    {R"({"type":"integer","minimum":-3,"maximum":12})",
     {"-3", "-1", "0", "9", "12"},
     {"-4", "13", "-12", "-0"}},
    {R"({"type":"integer","exclusiveMinimum":9,"maximum":1000})",
     {"10", "99", "1000"},
     {"9", "1001", "0"}},
    {R"({"type":"integer","maximum":-5})", {"-5", "-12345"}, {"-4", "0", "5"}},
    {R"({"type":"integer","minimum":98})", {"98", "99", "100", "1234"}, {"97", "9", "0", "-100"}},
    {R"({"type":"number"})", {"0", "-0.5", "1e9", "2.5E-3"}, {".5", "1.", "01", "1e", "NaN"}},
    {R"({"type":"number","minimum":0,"maximum":1})",
     {"0", "0.25", "1", "1.0"},
     {"1.01", "-0.1", "2"}},
    {R"({"type":"number","exclusiveMinimum":-2,"exclusiveMaximum":3})",
     {"-1.9", "0", "2.99", "-0.5"},
     {"-2", "-2.0", "3", "3.0", "10"}},
    {R"({"type":"boolean"})", {"true", "false"}, {"True", "1"}},
    {R"({"type":"null"})", {"null"}, {"nil"}},
    {R"({"type":["integer","null"]})", {"3", "null"}, {"\"3\""}},
    {R"({"const":{"a":[1,"x y"]}})",
     {R"({"a":[1,"x y"]})", R"({"a": [1, "x y"]})"},
     {R"({"a":[1,"xy"]})"}},
    {R"({"enum":["red","green",3,null]})", {R"("red")", "3", "null"}, {R"("blue")", "2"}},
    {R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"}},
    {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false})",
     {R"({"a":1})", R"({"a": 1, "b": "x"})", "{\n  \"a\": 1,\n  \"b\": \"x\"\n}"},
     {"{}", R"({"b":"x","a":1})", R"({"b":"x"})", R"({"a":1,})", R"({"a":1,"c":2})"}},
    {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"required":["b"]})",
     {R"({"b":[]})", R"({"a":{},"b":1})", R"({"b":1,"c":2})", R"({"a":1,"b":2,"c":3})"},
     {R"({"a":1,"c":3})", "{,}"}},
    {R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"boolean"}})",
     {"{}", R"({"a":1})", R"({"x":true})", R"({"a":1,"ab":false,"y":true})"},
     {R"({"a":true})", R"({"x":1})", R"({"a":1,"a":true})"}},
    {R"({"type":"object"})", {"{}", R"({"x":{"y":[1,{"z":null}]}})"}, {"[]", R"({x:1})"}},
    {R"({"type":"object","additionalProperties":false})", {"{}", "{ }"}, {R"({"a":1})"}},
    {R"({"type":"object","required":["k"]})", {R"({"k":1})"}, {"{}"}},
    {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
     {"[1]", "[1, 2,3]"},
     {"[]", "[1,2,3,4]", "[1,]"}},
    {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
     {"[]", "[1]", R"([1,"a"])"},
     {R"(["a"])", R"([1,"a",2])"}},
    {R"({"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":2})",
     {"[1,null]", "[1,null,null]"},
     {"[1]", "[]", "[null,null]"}},
    {R"({"anyOf":[{"type":"integer"},{"type":"array","items":{"type":"integer"}}]})",
     {"1", "[1]"},
     {"\"a\"", "[[1]]"}},
    {R"({"oneOf":[{"type":"string"},{"type":"null"}]})", {"\"x\"", "null"}, {"1"}},
    {R"({"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"x":{"type":"integer"}},"required":["t","x"]},
                  {"type":"object","properties":{"t":{"const":"b"}},"required":["t"]}]})",
     {R"({"t":"a","x":1})", R"({"t":"b"})"},
     {R"({"t":"b","x":1})", R"({"t":"a"})"}},
    {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
                  {"type":"object","properties":{"b":{"type":"integer"}}}]})",
     {R"({"a":1})", R"({"a":1,"b":2})"},
     {R"({"b":2})"}},
    {R"({"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}},"$ref":"#/$defs/node"})",
     {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
     {R"({"v":1})", R"({"v":1,"next":{}})"}},
    {R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]"}},
    {"true", {"1", "{}", "\"x\""}, {"", "x"}},
    {R"({"description":"anything","title":"T"})", {"null", "[1]"}, {"nul"}},
};

struct Refusal {
  std::string schema;
  std::string param;
};
std::ostream& operator<<(std::ostream& out, const Refusal& one) {
  return out << one.schema;
}
const std::vector<Refusal> kRefusals = {
    {"{", "schema"},
    {"3", "schema"},
    {"false", "schema"},
    {R"({"type":"strin"})", "type"},
    {R"({"type":"integer","multipleOf":2})", "multipleOf"},
    {R"({"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}})",
     "properties.a.uniqueItems"},
    {R"({"not":{"type":"string"}})", "not"},
    {R"({"type":"string","format":"hostname"})", "format"},
    {R"x({"type":"string","pattern":"(?=a)"})x", "pattern"},
    {R"({"type":"string","pattern":"a","maxLength":3})", "pattern"},
    {R"({"type":"integer","minimum":5,"maximum":4})", "schema"},
    {R"({"type":"string","minLength":5,"maxLength":4})", "minLength"},
    {R"({"type":"string","minLength":-1})", "minLength"},
    {R"({"enum":[]})", "enum"},
    {R"({"$ref":"#/$defs/none"})", "$ref"},
    {R"({"$ref":"http://example.org/x"})", "$ref"},
    {R"({"$ref":"#"})", "$ref"},
    {R"({"$defs":{"a":{"anyOf":[{"type":"object","properties":{"p":{"$ref":"#/$defs/b"}}},{"$ref":"#/$defs/b"}]},
                  "b":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"integer"}]}},"$ref":"#/$defs/a"})",
     "$ref"},
    {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "oneOf[1]"},
    {R"({"anyOf":[{"type":"integer"}],"minimum":3})", "minimum"},
    {R"({"type":"object","required":["a"],"additionalProperties":false})", "required"},
    {R"({"type":"object","patternProperties":{}})", "patternProperties"},
    {R"({"type":"array","items":[{"type":"string"}]})", "items"},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(json_schema_tests)

BOOST_DATA_TEST_CASE(a_schema_describes_its_texts, kCases, one) {
  ExpressionPool pool;
  const auto language = hs::parse_json_schema(pool, one.schema);
  BOOST_REQUIRE_MESSAGE(language.has_value(), (language ? "" : language.error().message));
  for (const std::string& text : one.valid) BOOST_TEST(matches(pool, *language, text), text);
  for (const std::string& text : one.invalid) BOOST_TEST(!matches(pool, *language, text), text);
}

BOOST_DATA_TEST_CASE(what_is_not_taken_is_refused_at_its_place, kRefusals, one) {
  ExpressionPool pool;
  const auto language = hs::parse_json_schema(pool, one.schema);
  BOOST_REQUIRE(!language);
  BOOST_TEST(language.error().param == one.param);
  BOOST_TEST(!language.error().message.empty());
}

BOOST_AUTO_TEST_CASE(hostile_schemas_end_in_an_error) {
  std::string deep = "1";
  for (int i = 0; i < 200; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  ExpressionPool pool;
  BOOST_TEST(!hs::parse_json_schema(pool, deep));
  BOOST_TEST(!hs::parse_json_schema(pool, std::string(300 << 10, ' ') + "true"));
  BOOST_TEST(!hs::parse_json_schema(pool, std::string(100'000, '[')));
  BOOST_TEST(!hs::parse_json_schema(pool, "{\"type\":\"\xff\"}"));
}

BOOST_AUTO_TEST_SUITE_END()
