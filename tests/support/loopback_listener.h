// A listening socket of this machine, for servers that tests script byte by byte.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "base/check.h"

namespace hs::test {

struct LoopbackListener {
  int descriptor = -1;  // whoever asked for it closes it
  uint16_t port = 0;    // a free one
};

inline LoopbackListener listen_on_loopback() {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  HS_CHECK(made >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  HS_CHECK(bind(made, generic, size) == 0 && listen(made, 64) == 0);
  HS_CHECK(getsockname(made, generic, &size) == 0);
  return {made, ntohs(address.sin_port)};
}

}  // namespace hs::test
