// The HTTP/1.1 server: listens, hands requests to a handler, and ends in good order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "http/handler.h"
#include "http/limits.h"
#include "loop/loop.h"

namespace hs {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // "::" takes IPv4 and IPv6
  uint16_t port = 8080;            // 0 picks a free one
  int backlog = 4096;              // the system may allow fewer
  int inherited_socket = -1;  // bound by whoever started the process; host and port do not count
  HttpLimits limits;
};

// Loop thread only. `handler` must outlive the server. Destroying it ends every connection at once.
class HttpServer {
 public:
  // kIo: the address is taken or not ours; kInvalidArgument: no such host.
  static Result<std::unique_ptr<HttpServer>> listen(Loop& loop, HttpHandler& handler,
                                                    const HttpServerOptions& options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // As bound: "127.0.0.1:8080"; "http://127.0.0.1:8080" is the URL of its root.
  std::string address() const;
  uint16_t port() const;

  size_t n_connections() const;

  // Stops listening, closes idle connections, and lets each answer under way end, for timeout_ms at
  // most; what is left then is cut off (its on_client_gone is called). Then calls `done`, once. A
  // second call shortens the wait; its `done` is called too.
  void drain(int64_t timeout_ms, std::function<void()> done);

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hs
