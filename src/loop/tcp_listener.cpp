// Listeners.
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "loop/socket_address.h"
#include "loop/tcp.h"
#include "loop/timer.h"

namespace hs {
namespace {

constexpr int kAcceptsAtOnce = 64;  // then others have their turn
constexpr int64_t kBackOffMs = 100;
constexpr int64_t kWarningPeriodUs = 60'000'000;

}  // namespace

// Accepts by itself, not by uv_listen(): that turns without end, or closes connections unheard,
// when the process has no descriptor left. Here they wait in the backlog until it has.
struct TcpListener::Handle {
  uv_poll_t poll{};
  Loop& loop;
  int descriptor;
  OnConnection on_connection;
  std::unique_ptr<Timer> retry;
  bool closed = false;
  int64_t warned_us = -kWarningPeriodUs;

  // `descriptor` listens and becomes the handle's.
  Handle(Loop& on_loop, int listening, OnConnection callback)
      : loop(on_loop),
        descriptor(listening),
        on_connection(std::move(callback)),
        retry(std::make_unique<Timer>(on_loop, [this] { start(); })) {
    HS_CHECK_EQ(uv_poll_init(on_loop.uv(), &poll, descriptor), 0);
    poll.data = this;
    start();
  }

  void start() {
    const auto on_knock = [](uv_poll_t* handle, int, int) {
      static_cast<Handle*>(handle->data)->accept_some();
    };
    HS_CHECK_EQ(uv_poll_start(&poll, UV_READABLE, on_knock), 0);
  }

  void close() {
    closed = true;
    retry.reset();
    uv_poll_stop(&poll);
    ::close(descriptor);
    uv_close(reinterpret_cast<uv_handle_t*>(&poll),
             [](uv_handle_t* handle) { delete static_cast<Handle*>(handle->data); });
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsAtOnce && !closed; ++i) {
      const int accepted = accept4(descriptor, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (accepted >= 0) {
        if (auto stream = TcpStream::take(loop, accepted)) on_connection(std::move(stream));
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return back_off(errno);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return;
      }
      // All else is an error of the one connection: its client left.
    }
  }

  void back_off(int error) {
    uv_poll_stop(&poll);
    retry->start(kBackOffMs);
    const int64_t now_us = loop.now_us();
    if (now_us - warned_us < kWarningPeriodUs) return;
    warned_us = now_us;
    log_warning("cannot accept connections for now: {}; they wait", std::strerror(error));
  }
};

namespace {

Error last_error(std::string_view what, std::string_view where) {
  return {
      ErrorKind::kIo, fmt::format("cannot {} {}: {}", what, where, std::strerror(errno)), {}, {}};
}

Result<int> bound_socket(const sockaddr_storage& target) {
  const std::string where = address_text(target);
  const int made = socket(target.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) return std::unexpected(last_error("listen on", where));
  const int on = 1;
  const int off = 0;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socklen_t bytes = sizeof(sockaddr_in);
  if (target.ss_family == AF_INET6) {
    setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    bytes = sizeof(sockaddr_in6);
  }
  if (bind(made, reinterpret_cast<const sockaddr*>(&target), bytes) == 0) return made;
  Error error = last_error("listen on", where);
  ::close(made);
  return std::unexpected(std::move(error));
}

}  // namespace

Result<std::unique_ptr<TcpListener>> TcpListener::adopt(Loop& loop, int descriptor, int backlog,
                                                        OnConnection on_connection) {
  const int flags = fcntl(descriptor, F_GETFL);
  const bool good = flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 &&
                    ::listen(descriptor, backlog) == 0;
  if (!good)
    return std::unexpected(
        last_error("listen on", fmt::format("the inherited socket {}", descriptor)));
  return std::unique_ptr<TcpListener>(
      new TcpListener(new Handle(loop, descriptor, std::move(on_connection))));
}

Result<std::unique_ptr<TcpListener>> TcpListener::listen(Loop& loop, const std::string& host,
                                                         uint16_t port, int backlog,
                                                         OnConnection on_connection) {
  const Result<sockaddr_storage> target = resolve_address(loop, host, port);
  if (!target) return std::unexpected(target.error());
  const Result<int> bound = bound_socket(*target);
  if (!bound) return std::unexpected(bound.error());
  if (::listen(*bound, backlog) != 0) {
    Error error = last_error("listen on", address_text(*target));
    ::close(*bound);
    return std::unexpected(std::move(error));
  }
  return std::unique_ptr<TcpListener>(
      new TcpListener(new Handle(loop, *bound, std::move(on_connection))));
}

TcpListener::~TcpListener() {
  handle_->close();
}

std::string TcpListener::address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  HS_CHECK_EQ(getsockname(handle_->descriptor, reinterpret_cast<sockaddr*>(&address), &length), 0);
  return address_text(address);
}

uint16_t TcpListener::port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  HS_CHECK_EQ(getsockname(handle_->descriptor, reinterpret_cast<sockaddr*>(&address), &length), 0);
  return address_port(address);
}

}  // namespace hs
