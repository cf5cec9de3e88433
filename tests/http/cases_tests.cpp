// Every case of tests/http_cases is sent to a real server twice, in one piece and byte by byte; the
// answer must be the written bytes, the connection must be open or closed as written, and the
// handler must have seen what is written.
#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>

#include "case_file.h"
#include "server_fixture.h"
#include "support/source_dir.h"

namespace hs::test {
namespace {

void set_limit(HttpLimits& limits, const std::string& name, int64_t value) {
  const auto size = static_cast<size_t>(value);
  if (name == "target_bytes_max")
    limits.target_bytes_max = size;
  else if (name == "head_bytes_max")
    limits.head_bytes_max = size;
  else if (name == "n_headers_max")
    limits.n_headers_max = size;
  else if (name == "chunk_extension_bytes_max")
    limits.chunk_extension_bytes_max = size;
  else if (name == "body_bytes_max")
    limits.body_bytes_max = size;
  else if (name == "all_bodies_bytes_max")
    limits.all_bodies_bytes_max = size;
  else if (name == "head_timeout_ms")
    limits.head_timeout_ms = value;
  else if (name == "idle_timeout_ms")
    limits.idle_timeout_ms = value;
  else if (name == "body_window_ms")
    limits.body_window_ms = value;
  else
    BOOST_FAIL("unknown limit " << name);
}

std::string without_dates(std::string text) {
  for (size_t at = 0; (at = text.find("\r\nDate: ", at)) != text.npos;)
    text.erase(at, text.find("\r\n", at + 2) - at);
  return text;
}

void send(ServerFixture& fixture, TcpClient& client, std::string_view bytes, bool bytewise) {
  if (!bytewise) return client.send(bytes);
  for (const char c : bytes) {
    if (client.ended()) return;  // refused already
    client.send({&c, 1});
    fixture.loop.run_once(false);
  }
}

void run_case(const WireCase& wire_case, bool bytewise) {
  BOOST_TEST_CONTEXT(wire_case.file << ": " << wire_case.name << (bytewise ? " (bytewise)" : "")) {
    ServerFixture fixture;
    HttpLimits limits;
    for (const auto& [name, value] : wire_case.limits) set_limit(limits, name, value);
    fixture.start(limits);
    const auto client = fixture.connect();
    std::string expected;
    for (const WireStep& step : wire_case.steps) {
      send(fixture, *client, step.send, bytewise);
      expected += step.expect;
      fixture.until(
          [&] {
            return without_dates(client->received).size() >= expected.size() || client->ended();
          },
          "the answer");
    }
    // The end of the client's side makes the server close an open connection after whatever it
    // still has to say.
    if (!wire_case.closed) {
      BOOST_TEST(!client->ended());
      client->stream->shutdown();
    }
    fixture.until([&] { return client->ended(); }, "the connection's end");
    BOOST_TEST(without_dates(client->received) == expected);
    BOOST_TEST(!client->broken, "the connection was reset: " << client->reason);
    if (wire_case.checks_events) BOOST_TEST(fixture.handler.events == wire_case.events);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cases_tests)

BOOST_AUTO_TEST_CASE(every_case_in_one_piece) {
  const auto cases = read_wire_cases(source_dir() + "/tests/http_cases");
  BOOST_TEST(cases.size() > 50U);
  for (const WireCase& wire_case : cases) run_case(wire_case, false);
}

BOOST_AUTO_TEST_CASE(every_case_byte_by_byte) {
  for (const WireCase& wire_case : read_wire_cases(source_dir() + "/tests/http_cases"))
    run_case(wire_case, true);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
