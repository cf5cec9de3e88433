// A failure carries its kind, text, code and field through Result and Status.
#include <boost/test/unit_test.hpp>

#include "base/status.h"

BOOST_AUTO_TEST_SUITE(status_tests)

BOOST_AUTO_TEST_CASE(failure_keeps_kind_message_code_and_param) {
  const hs::Result<int> result =
      hs::fail(hs::ErrorKind::kTooLarge, "too big", "context_length_exceeded", "messages");
  BOOST_REQUIRE(!result);
  BOOST_TEST((result.error().kind == hs::ErrorKind::kTooLarge));
  BOOST_TEST(result.error().message == "too big");
  BOOST_TEST(result.error().code == "context_length_exceeded");
  BOOST_TEST(result.error().param == "messages");
}

BOOST_AUTO_TEST_CASE(status_without_failure_is_true) {
  BOOST_TEST(hs::Status{}.has_value());
}

BOOST_AUTO_TEST_SUITE_END()
