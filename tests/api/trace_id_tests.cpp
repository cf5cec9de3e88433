// Proves that a trace's id is taken from a traceparent header of the W3C's form only.
#include <boost/test/unit_test.hpp>
#include <string>

#include "api/trace_id.h"

namespace hs {

BOOST_AUTO_TEST_SUITE(trace_id_tests)

BOOST_AUTO_TEST_CASE(the_id_is_that_of_the_header) {
  const std::string id = "4bf92f3577b34da6a3ce929d0e0e4736";
  BOOST_TEST(trace_id_of("00-" + id + "-00f067aa0ba902b7-01") == id);
  BOOST_TEST(trace_id_of("01-" + id + "-00f067aa0ba902b7-01-more") == id);
}

BOOST_AUTO_TEST_CASE(anything_else_is_none) {
  for (const char* header : {"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736",
                             "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                             "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                             "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                             "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
    BOOST_TEST(trace_id_of(header) == "", header);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
