// A real server on a free loopback port with the test handler, and clients on the same loop.
#pragma once

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/server.h"
#include "support/loop_wait.h"
#include "support/tcp_client.h"
#include "test_handler.h"

namespace hs::test {

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
  // Until the client has what ends with `end`.
  bool until_received(const TcpClient& client, std::string_view end) {
    return until([&] { return client.received.ends_with(end); }, fmt::format("'{}'", end));
  }
  // The writer of a request to a path below /later.
  std::shared_ptr<ResponseWriter> writer(const std::string& path) {
    BOOST_REQUIRE(until([&] { return handler.waiting.contains(path); }, path));
    return handler.waiting[path];
  }
};

inline std::string get(std::string_view path, std::string_view headers = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: t\r\n{}\r\n", path, headers);
}

}  // namespace hs::test
