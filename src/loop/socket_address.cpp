#include "loop/socket_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <uv.h>

#include <array>
#include <cstring>

namespace hs {

Result<sockaddr_storage> parse_address(std::string_view host, uint16_t port) {
  const std::string text(host);
  sockaddr_storage storage{};
  sockaddr_in in4{};
  sockaddr_in6 in6{};
  if (uv_ip4_addr(text.c_str(), port, &in4) == 0) {
    std::memcpy(&storage, &in4, sizeof in4);
    return storage;
  }
  if (uv_ip6_addr(text.c_str(), port, &in6) == 0) {
    std::memcpy(&storage, &in6, sizeof in6);
    return storage;
  }
  return fail(ErrorKind::kInvalidArgument, fmt::format("'{}' is not an IP address", host));
}

Result<sockaddr_storage> resolve_address(Loop& loop, const std::string& host, uint16_t port) {
  if (Result<sockaddr_storage> numeric = parse_address(host, port)) return numeric;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  uv_getaddrinfo_t request{};
  const std::string service = fmt::format("{}", port);
  const int error =
      uv_getaddrinfo(loop.uv(), &request, nullptr, host.c_str(), service.c_str(), &hints);
  if (error != 0)
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("cannot find the host '{}': {}", host, uv_strerror(error)));
  sockaddr_storage storage{};
  // IPv4 is preferred: clients that try one address of "localhost" only nearly all try that one.
  const addrinfo* chosen = request.addrinfo;
  for (const addrinfo* each = request.addrinfo; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET) continue;
    chosen = each;
    break;
  }
  std::memcpy(&storage, chosen->ai_addr, chosen->ai_addrlen);
  uv_freeaddrinfo(request.addrinfo);
  return storage;
}

std::string address_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    sockaddr_in in4{};
    std::memcpy(&in4, &address, sizeof in4);
    uv_ip4_name(&in4, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(in4.sin_port));
  }
  if (address.ss_family != AF_INET6) return {};
  sockaddr_in6 in6{};
  std::memcpy(&in6, &address, sizeof in6);
  if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
    inet_ntop(AF_INET, &in6.sin6_addr.s6_addr[12], text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(in6.sin6_port));
  }
  uv_ip6_name(&in6, text.data(), text.size());
  return fmt::format("[{}]:{}", text.data(), ntohs(in6.sin6_port));
}

uint16_t address_port(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 in6{};
    std::memcpy(&in6, &address, sizeof in6);
    return ntohs(in6.sin6_port);
  }
  sockaddr_in in4{};
  std::memcpy(&in4, &address, sizeof in4);
  return ntohs(in4.sin_port);
}

}  // namespace hs
