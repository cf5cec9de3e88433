// A response's bytes around its body: framing, connection, and dates.
#include <array>
#include <boost/test/unit_test.hpp>

#include "http/response_head.h"

namespace hs {

BOOST_AUTO_TEST_SUITE(response_head_tests)

BOOST_AUTO_TEST_CASE(date_has_the_fixed_form) {
  BOOST_TEST(http_date(784111777) == "Sun, 06 Nov 1994 08:49:37 GMT");
  BOOST_TEST(http_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT");
  BOOST_TEST(http_date(1709251199) == "Thu, 29 Feb 2024 23:59:59 GMT");
}

BOOST_AUTO_TEST_CASE(head_with_a_length) {
  ResponseHead head;
  head.body_bytes = 12;
  head.date = "D";
  const std::array<HttpHeader, 1> headers = {{{"X-A", "b"}}};
  head.headers = headers;
  BOOST_TEST(format_head(head) ==
             "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 12\r\nX-A: b\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(servers_own_headers_are_not_taken_from_the_handler) {
  ResponseHead head;
  head.date = "D";
  head.keep_alive = false;
  head.framing = BodyFraming::kChunked;
  const std::array<HttpHeader, 4> headers = {{{"content-length", "1"},
                                              {"DATE", "x"},
                                              {"Connection", "keep-alive"},
                                              {"Transfer-Encoding", "gzip"}}};
  head.headers = headers;
  BOOST_TEST(
      format_head(head) ==
      "HTTP/1.1 200 OK\r\nDate: D\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(chunk_size_is_hexadecimal) {
  BOOST_TEST(format_chunk("x") == "1\r\nx\r\n");
  BOOST_TEST(format_chunk(std::string(300, 'y')) == "12c\r\n" + std::string(300, 'y') + "\r\n");
}

BOOST_AUTO_TEST_CASE(only_these_statuses_have_no_body) {
  for (const int status : {100, 204, 304}) BOOST_TEST(!status_has_body(status));
  for (const int status : {200, 201, 400, 404, 503}) BOOST_TEST(status_has_body(status));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
