// Events and comments as a server-sent-event client reads them.
#include <boost/test/unit_test.hpp>

#include "http/sse.h"

namespace hs {

BOOST_AUTO_TEST_SUITE(sse_tests)

BOOST_AUTO_TEST_CASE(one_line_is_one_event) {
  BOOST_TEST(sse_event("[DONE]") == "data: [DONE]\n\n");
  BOOST_TEST(sse_event("") == "data: \n\n");
}

BOOST_AUTO_TEST_CASE(each_line_of_the_data_is_a_data_line) {
  BOOST_TEST(sse_event("a\nb\n") == "data: a\ndata: b\ndata: \n\n");
}

BOOST_AUTO_TEST_CASE(comment_is_a_line_that_clients_skip) {
  BOOST_TEST(sse_comment("still here") == ": still here\n\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
