// How many small requests a second the server answers, and what each costs its thread.
//
//   hs_bench_http [--seconds N] [--connections N]
//
// Server and clients have a thread and a loop each. Clients keep one request under way on each
// connection (no pipelining). The figure that does not depend on what else runs on the machine is
// requests per second of the server thread's own CPU time. Prints a table and one line of JSON.
#include <fmt/format.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "http/server.h"
#include "loop/async_wakeup.h"
#include "loop/tcp.h"
#include "loop/timer.h"

namespace {

constexpr std::string_view kRequest =
    "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";
constexpr std::string_view kBodyEnd = "{\"status\":\"ok\"}";

class Health final : public hs::HttpHandler {
 public:
  std::optional<hs::HttpResponse> check_head(const hs::HttpRequest&) override { return {}; }
  void handle(hs::HttpRequest, std::shared_ptr<hs::ResponseWriter> writer) override {
    writer->send({200, {{"content-type", "application/json"}}, std::string(kBodyEnd)});
  }
  hs::HttpResponse protocol_error(int status, std::string_view message,
                                  const hs::HttpRequest& /*head*/) override {
    return {status, {}, std::string(message)};
  }
  void on_response_done(std::string_view, std::string_view, int, int64_t) override {}
};

// Sends the next request as soon as the answer to the last is complete.
class Client final : public hs::TcpEvents {
 public:
  Client(hs::Loop& loop, uint16_t port) {
    auto made = hs::TcpStream::connect(loop, "127.0.0.1", port, this, [this] {
      stream_->start_reading();
      ask();
    });
    if (!made) std::abort();
    stream_ = std::move(*made);
  }
  size_t n_answers() const { return n_answers_; }

  void on_read(std::string_view bytes) override {
    received_ += bytes;
    if (!received_.ends_with(kBodyEnd)) return;
    received_.clear();
    ++n_answers_;
    ask();
  }
  void on_eof() override { std::abort(); }
  void on_broken(std::string_view) override { std::abort(); }
  void on_drained() override {}

 private:
  void ask() { stream_->write(std::string(kRequest)); }

  std::unique_ptr<hs::TcpStream> stream_;
  std::string received_;
  size_t n_answers_ = 0;
};

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct ServerThread {
  std::promise<uint16_t> port;
  std::promise<hs::AsyncWakeup*> stop;
  double cpu_seconds = 0;

  void run() {
    hs::Loop loop;
    Health handler;
    hs::HttpServerOptions options;
    options.port = 0;
    auto server = hs::HttpServer::listen(loop, handler, options);
    if (!server) std::abort();
    hs::AsyncWakeup wakeup(loop, [&] { loop.stop(); });
    stop.set_value(&wakeup);
    port.set_value((*server)->port());
    loop.run();
    cpu_seconds = thread_cpu_seconds();
  }
};

}  // namespace

int main(int argc, char** argv) {
  int seconds = 3;
  size_t n_connections = 16;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--seconds")
      seconds = std::atoi(argv[i + 1]);
    else if (flag == "--connections")
      n_connections = static_cast<size_t>(std::atoi(argv[i + 1]));
  }
  ServerThread server;
  std::thread thread([&] { server.run(); });
  hs::AsyncWakeup* stop_server = server.stop.get_future().get();
  const uint16_t port = server.port.get_future().get();

  size_t n_answers = 0;
  double wall_seconds = 0;
  {
    hs::Loop loop;
    std::vector<std::unique_ptr<Client>> clients;
    for (size_t i = 0; i < n_connections; ++i)
      clients.push_back(std::make_unique<Client>(loop, port));
    hs::Timer end(loop, [&] { loop.stop(); });
    const int64_t begin_us = loop.now_us();
    end.start(int64_t{seconds} * 1000);
    loop.run();
    wall_seconds = static_cast<double>(loop.now_us() - begin_us) * 1e-6;
    for (const auto& client : clients) n_answers += client->n_answers();
    stop_server->send();
    thread.join();
  }
  const double requests = static_cast<double>(n_answers);
  fmt::print(
      "{} connections, {:.1f} s: {:.0f} requests/s, {:.0f} per second of the server thread's CPU\n",
      n_connections, wall_seconds, requests / wall_seconds, requests / server.cpu_seconds);
  fmt::print(
      "{{\"http_requests_per_s\": {:.0f}, \"http_requests_per_cpu_s\": {:.0f}, \"connections\": "
      "{}}}\n",
      requests / wall_seconds, requests / server.cpu_seconds, n_connections);
  return n_answers > 0 ? 0 : 1;
}
