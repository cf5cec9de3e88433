// Socket addresses from and to text. Private to this folder's sources.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "loop/loop.h"

namespace hs {

// A numeric IPv4 or IPv6 address; kInvalidArgument for anything else.
Result<sockaddr_storage> parse_address(std::string_view host, uint16_t port);
// Also names, by a blocking look-up.
Result<sockaddr_storage> resolve_address(Loop& loop, const std::string& host, uint16_t port);

// "127.0.0.1:80", "[::1]:80"; an IPv4 peer of a dual-stack socket is shown as IPv4.
std::string address_text(const sockaddr_storage& address);
uint16_t address_port(const sockaddr_storage& address);

}  // namespace hs
