#include "http/server.h"

#include <ctime>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "http/connection.h"
#include "http/response_head.h"
#include "loop/tcp.h"
#include "loop/timer.h"

namespace hs {
namespace {

// Clients over the limit are told so; beyond this many of them they are just closed.
constexpr size_t kRefusalsMax = 64;

}  // namespace

struct HttpServer::State final : HttpConnectionHost {
  std::unique_ptr<TcpListener> listener;
  std::string address;
  uint16_t port = 0;
  std::unordered_map<HttpConnection*, std::unique_ptr<HttpConnection>> connections;
  std::vector<std::unique_ptr<HttpConnection>> closed_connections;  // destroyed by the reaper
  Timer reaper;
  Timer drain_timer;
  std::vector<std::function<void()>> drained_callbacks;
  std::string date_text;
  std::time_t date_seconds = 0;

  State(Loop& on_loop, HttpHandler& with_handler, const HttpLimits& with_limits)
      : HttpConnectionHost(on_loop, with_handler, with_limits),
        reaper(on_loop, [this] { reap(); }),
        drain_timer(on_loop, [this] { abort_all(); }) {}

  std::string_view date() override {
    const std::time_t now = std::time(nullptr);
    if (now != date_seconds) {
      date_seconds = now;
      date_text = http_date(now);
    }
    return date_text;
  }

  void accept(std::unique_ptr<TcpStream> stream) {
    const size_t n_before = connections.size();
    if (n_before >= limits.n_connections_max + kRefusalsMax) return;
    auto connection = std::make_unique<HttpConnection>(*this, std::move(stream));
    HttpConnection* accepted = connection.get();
    connections.emplace(accepted, std::move(connection));
    if (n_before >= limits.n_connections_max)
      accepted->refuse(503, "The server has too many connections; please try again.");
    else
      accepted->start();
  }

  void closed(HttpConnection* connection) override {
    const auto found = connections.find(connection);
    HS_CHECK(found != connections.end());
    closed_connections.push_back(std::move(found->second));
    connections.erase(found);
    if (!reaper.active()) reaper.start(0);
  }

  void reap() {
    std::exchange(closed_connections, {}).clear();
    if (!draining || !connections.empty()) return;
    drain_timer.stop();
    // A callback may destroy the server.
    for (const auto callbacks = std::exchange(drained_callbacks, {});
         const auto& callback : callbacks)
      callback();
  }

  // Closing changes the map, so the walk is over a copy of its keys.
  void for_each_connection(const std::function<void(HttpConnection&)>& action) {
    std::vector<HttpConnection*> all;
    for (const auto& [key, connection] : connections) all.push_back(key);
    for (HttpConnection* each : all)
      if (connections.contains(each)) action(*each);
  }

  void abort_all() {
    for_each_connection([](HttpConnection& connection) { connection.abort(); });
    reaper.start(0);
  }
};

Result<std::unique_ptr<HttpServer>> HttpServer::listen(Loop& loop, HttpHandler& handler,
                                                       const HttpServerOptions& options) {
  auto state = std::make_unique<State>(loop, handler, options.limits);
  State* raw = state.get();
  const auto accept = [raw](std::unique_ptr<TcpStream> stream) { raw->accept(std::move(stream)); };
  Result<std::unique_ptr<TcpListener>> listener =
      options.inherited_socket >= 0
          ? TcpListener::adopt(loop, options.inherited_socket, options.backlog, accept)
          : TcpListener::listen(loop, options.host, options.port, options.backlog, accept);
  if (!listener) return std::unexpected(listener.error());
  state->listener = std::move(*listener);
  state->address = state->listener->address();
  state->port = state->listener->port();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() {
  state_->listener.reset();
  state_->abort_all();
}

std::string HttpServer::address() const {
  return state_->address;
}

uint16_t HttpServer::port() const {
  return state_->port;
}

size_t HttpServer::n_connections() const {
  return state_->connections.size();
}

void HttpServer::drain(int64_t timeout_ms, std::function<void()> done) {
  state_->draining = true;
  state_->listener.reset();
  state_->drained_callbacks.push_back(std::move(done));
  state_->drain_timer.start(timeout_ms);
  state_->for_each_connection([](HttpConnection& connection) { connection.drain(); });
  state_->reaper.start(0);
}

}  // namespace hs
