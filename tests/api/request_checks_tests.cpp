// Proves what a request's head may say: host names, content types, request ids, escapes in paths.
#include <boost/test/unit_test.hpp>
#include <string>

#include "api/request_checks.h"

namespace hs {

BOOST_AUTO_TEST_SUITE(request_checks_tests)

BOOST_AUTO_TEST_CASE(only_this_machines_own_names_are_loopback) {
  for (const char* host : {"localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:1", "[::1]",
                           "[::1]:8080", "127.0.0.2:80"})
    BOOST_TEST(is_loopback_host(host), host);
  for (const char* host :
       {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80",
        "127.example.com", "::1", "localhost:80:80", "localhost:x", "[::1", "[::1]x"})
    BOOST_TEST(!is_loopback_host(host), host);
}

BOOST_AUTO_TEST_CASE(only_json_types_are_json) {
  for (const char* type :
       {"application/json", "Application/JSON", "application/json; charset=latin1",
        "application/json ;x", "application/vnd.api+json"})
    BOOST_TEST(is_json_content_type(type), type);
  for (const char* type :
       {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
        "+json", ";", "application/jsonx", "text/plain; application/json"})
    BOOST_TEST(!is_json_content_type(type), type);
}

BOOST_AUTO_TEST_CASE(request_ids_that_are_safe_to_repeat) {
  BOOST_TEST(usable_request_id("a-Z_0.9:x") == "a-Z_0.9:x");
  for (const char* id : {"a b", "a\n", "é", "a\"b", "a/b"})
    BOOST_TEST(usable_request_id(id).empty());
  BOOST_TEST(usable_request_id(std::string(129, 'a')).empty());
}

BOOST_AUTO_TEST_CASE(percent_escapes) {
  BOOST_TEST(*percent_decoded("a%2Fb%20%c3%a9") == "a/b é");
  for (const char* text : {"%", "%2", "%zz", "a%2", "%-1", "%+1"})
    BOOST_TEST(!percent_decoded(text), text);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
