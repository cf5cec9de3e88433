// URLs of outgoing requests: what is taken, what is refused, where a redirect leads.
#include <boost/test/unit_test.hpp>

#include "fetch/url.h"
#include "support/results.h"

namespace hs {
namespace {

BOOST_AUTO_TEST_SUITE(url_tests)

BOOST_AUTO_TEST_CASE(parts_are_told_with_the_schemes_port) {
  const auto plain = parse_url("https://Example.COM/a/b?c=d#part");
  BOOST_REQUIRE_MESSAGE(plain, test::message_of(plain));
  BOOST_TEST(plain->scheme == "https");
  BOOST_TEST(plain->host == "example.com");
  BOOST_TEST(plain->port == 443);
  BOOST_TEST(plain->text.find('#') == std::string::npos);
  const auto v6 = parse_url("http://[::1]:8080/");
  BOOST_REQUIRE(v6);
  BOOST_TEST(v6->host == "::1");
  BOOST_TEST(v6->port == 8080);
}

BOOST_AUTO_TEST_CASE(other_schemes_users_and_control_characters_are_refused) {
  for (const char* bad : {"", "ftp://a/b", "file:///etc/passwd", "javascript:alert(1)", "//a/b",
                          "http://", "http://user:pw@host/", "http://user@host/", "http://a b/",
                          "http://a/\r\nX: y", "http://a:99999/", "http://a:0/", "relative/path"}) {
    const auto got = parse_url(bad);
    BOOST_TEST(!got, bad);
    if (!got) BOOST_TEST(got.error().code == "invalid_url");
  }
  BOOST_TEST(!parse_url("http://a/" + std::string(10'000, 'x')));
}

BOOST_AUTO_TEST_CASE(numbers_that_spell_an_address_are_told_as_that_address) {
  const auto number = parse_url("http://2130706433/");
  BOOST_REQUIRE(number);
  BOOST_TEST(number->host == "127.0.0.1");
}

BOOST_AUTO_TEST_CASE(redirects_resolve_against_where_they_came_from) {
  const Url base = *parse_url("https://a.example:444/x/y?z");
  const auto text_of = [&](const char* location) { return resolve_url(base, location)->text; };
  BOOST_TEST(text_of("/q?r=1") == "https://a.example:444/q?r=1");
  BOOST_TEST(text_of("w") == "https://a.example:444/x/w");
  BOOST_TEST(text_of("//b.example/v") == "https://b.example/v");
  BOOST_TEST(text_of("http://c.example/") == "http://c.example/");
  BOOST_TEST(!resolve_url(base, "data:text/plain,x"));
  BOOST_TEST(!resolve_url(base, "http://u:p@c.example/"));
}

BOOST_AUTO_TEST_CASE(an_origin_is_scheme_host_and_port) {
  const Url a = *parse_url("http://a/x");
  BOOST_TEST(a.same_origin(*parse_url("http://A:80/y")));
  for (const char* other : {"https://a/x", "http://a:81/", "http://b/", "http://a.a/"})
    BOOST_TEST(!a.same_origin(*parse_url(other)), other);
}

BOOST_AUTO_TEST_CASE(paths_are_escaped_but_for_slashes) {
  BOOST_TEST(escaped_path("a/b c#%?\xc3\xa9") == "a/b%20c%23%25%3F%C3%A9");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs
