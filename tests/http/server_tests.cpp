// The server over real sockets, with a client on the same loop: answers, back-pressure, time-outs,
// leaving clients and the orderly end. Times are short and injected; every wait is for an event.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "http/server.h"
#include "support/loop_wait.h"
#include "support/tcp_client.h"
#include "test_handler.h"

namespace hs::test {
namespace {

struct ServerFixture {
  Loop loop;
  TestHandler handler;
  std::unique_ptr<HttpServer> server;

  void start(const HttpLimits& limits = {}) {
    Result<std::unique_ptr<HttpServer>> made =
        HttpServer::listen(loop, handler, {.host = "127.0.0.1", .port = 0, .limits = limits});
    BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
    server = std::move(*made);
  }
  std::unique_ptr<TcpClient> connect(bool reads = true) {
    return std::make_unique<TcpClient>(loop, server->port(), reads);
  }
  bool until(const std::function<bool()>& condition, std::string_view what) {
    return run_until(loop, condition, what);
  }
  bool until_answer(const TcpClient& client, std::string_view end) {
    return until([&] { return has_answer(client.received, end) || client.ended(); }, "an answer");
  }
  std::shared_ptr<ResponseWriter> writer(const std::string& path) {
    until([&] { return handler.waiting.contains(path); }, path);
    return handler.waiting[path];
  }
};

std::string get(std::string_view path, std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: t\r\n{}\r\n", path, more);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(server_tests, ServerFixture)

BOOST_AUTO_TEST_CASE(one_connection_serves_many_requests) {
  start();
  const auto client = connect();
  for (int i = 0; i < 5; ++i) {
    client->received.clear();
    client->send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nab" +
                 std::to_string(i));
    until_answer(*client, "ab" + std::to_string(i));
    BOOST_TEST(client->received.starts_with("HTTP/1.1 200 OK\r\n"));
    BOOST_TEST(client->received.find("Content-Length: 3\r\n") != std::string::npos);
  }
  BOOST_TEST(server->n_connections() == 1U);
}

BOOST_AUTO_TEST_CASE(stream_arrives_chunk_by_chunk) {
  start();
  const auto client = connect();
  client->send(get("/later"));
  const auto answer = writer("/later");
  answer->start_stream(200, {{"content-type", "text/plain"}});
  answer->write("first");
  until_answer(*client, "5\r\nfirst\r\n");
  answer->write("second");
  until_answer(*client, "6\r\nsecond\r\n");
  answer->end();
  until_answer(*client, "0\r\n\r\n");
  BOOST_TEST(client->received.find("Transfer-Encoding: chunked\r\n") != std::string::npos);
  BOOST_TEST(handler.gone["/later"] == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
