#include "app/service_manager.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>

#include "base/log.h"

namespace hs {
namespace {

constexpr int kFirstInherited = 3;  // SD_LISTEN_FDS_START

std::optional<int64_t> number(const ServiceManager::Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr) return {};
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stopped != end) return {};
  return value;
}

// Of a path, or of an abstract name, which is written with @; "" if it is neither.
std::string unix_address(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() < 2 || name.size() >= sizeof(address.sun_path)) return {};
  if (name.front() != '/' && name.front() != '@') return {};
  name.copy(address.sun_path, name.size());
  if (name.front() == '@') address.sun_path[0] = '\0';
  // An abstract name ends where its address does, a path with a zero.
  const size_t bytes =
      offsetof(sockaddr_un, sun_path) + name.size() + (name.front() == '/' ? 1 : 0);
  return {reinterpret_cast<const char*>(&address), bytes};
}

}  // namespace

ServiceManager::ServiceManager(const Environment& environment) {
  const char* name = environment("NOTIFY_SOCKET");
  if (name != nullptr) address_ = unix_address(name);
  if (!address_.empty()) socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return;
  const auto pid = number(environment, "WATCHDOG_PID");
  const auto usec = number(environment, "WATCHDOG_USEC");
  if (usec && *usec > 1 && (!pid || *pid == getpid())) ping_interval_us_ = *usec / 2;
}

ServiceManager::~ServiceManager() {
  if (socket_ >= 0) close(socket_);
}

void ServiceManager::notify(std::string_view lines) {
  if (socket_ < 0) return;
  const auto* address = reinterpret_cast<const sockaddr*>(address_.data());
  const ssize_t sent = sendto(socket_, lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                              address, static_cast<socklen_t>(address_.size()));
  if (sent >= 0 || failed_) return;
  failed_ = true;
  log_warning("the service manager cannot be told: {}", std::strerror(errno));
}

void ServiceManager::status(std::string_view text) {
  if (text == last_status_) return;
  last_status_ = text;
  notify(fmt::format("STATUS={}", text));
}

void Watchdog::ping(const std::string& hangs) {
  if (hangs.empty() && hanging_) log_info("no device hangs any more");
  if (!hangs.empty() && !hanging_) {
    log_error("{}; no more signs of life go to the service manager", hangs);
    manager_.status(hangs);
  }
  hanging_ = !hangs.empty();
  if (!hanging_) manager_.notify("WATCHDOG=1");
}

void Watchdog::beat(std::span<const LaneStats> lanes, int64_t now_us) {
  std::string hangs;
  for (const LaneStats& lane : lanes) {
    if (hang_us_ == 0 || lane.lost || lane.busy_since_us < 0) continue;
    const int64_t busy_us = now_us - lane.busy_since_us;
    if (busy_us >= hang_us_)
      hangs =
          fmt::format("device {} hangs: at one order for {} s", lane.device, busy_us / 1'000'000);
  }
  ping(hangs);
}

void Watchdog::beat_loading(int32_t percent, int64_t now_us) {
  if (percent != percent_) {
    percent_ = percent;
    percent_since_us_ = now_us;
  }
  const int64_t stands_us = now_us - percent_since_us_;
  ping(hang_us_ == 0 || stands_us < hang_us_
           ? ""
           : fmt::format("the load hangs: at {} % for {} s", percent, stands_us / 1'000'000));
}

Result<std::optional<InheritedSocket>> inherited_socket(
    const ServiceManager::Environment& environment) {
  const auto pid = number(environment, "LISTEN_PID");
  const auto count = number(environment, "LISTEN_FDS");
  if (!pid || *pid != getpid() || !count || *count < 1) return std::nullopt;
  if (*count > 1)
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("{} sockets were handed over; one is served", *count));
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  int type = 0;
  socklen_t type_length = sizeof type;
  const bool known =
      getsockname(kFirstInherited, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
      getsockopt(kFirstInherited, SOL_SOCKET, SO_TYPE, &type, &type_length) == 0;
  const void* bytes = nullptr;
  if (address.ss_family == AF_INET)
    bytes = &reinterpret_cast<const sockaddr_in*>(&address)->sin_addr;
  else if (address.ss_family == AF_INET6)
    bytes = &reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr;
  char text[INET6_ADDRSTRLEN] = {};
  if (!known || type != SOCK_STREAM || bytes == nullptr ||
      inet_ntop(address.ss_family, bytes, text, sizeof text) == nullptr)
    return fail(ErrorKind::kInvalidArgument, "the socket that was handed over is not a TCP socket");
  return InheritedSocket{kFirstInherited, text};
}

}  // namespace hs
