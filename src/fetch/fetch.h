// One outgoing HTTP request over libcurl: blocking, with caps on bytes and time, and redirects
// followed one by one so that each can be judged.
//
// Any thread that may block (never the loop's). Nothing is shared between calls: each hop has a
// connection of its own, to an address that the policy saw.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fetch/url.h"

namespace hs {

struct FetchHeader {
  std::string name;  // of a response: in lower case
  std::string value;
};

struct FetchHead {
  int status = 0;
  std::vector<FetchHeader> headers;
  Url url;  // of the last hop

  std::string_view header(std::string_view lower_name) const;  // the first of that name, or ""
};

// An address that a name was resolved to, just before it is connected to.
struct ResolvedAddress {
  bool is_v6 = false;
  std::array<uint8_t, 16> bytes{};  // network order; four of them for IPv4
  uint16_t port = 0;
  std::string text;  // "192.0.2.1"
};

// What may be fetched. Both may be empty: everything. A refusal is the request's error.
struct FetchPolicy {
  // Each hop, the first (0) and every redirect, before its name is resolved.
  std::function<Status(const Url& url, int hop)> allow_url;
  // Each address before a socket to it exists; the connection goes to that address and no other.
  // Behind a proxy it is the proxy's, so a policy about addresses needs use_proxy = false.
  std::function<Status(const Url& url, const ResolvedAddress& address)> allow_address;
};

struct FetchLimits {
  int64_t bytes_max = 64 << 20;  // of the body
  int64_t connect_ms = 15'000;   // of each hop, name resolution and TLS included
  int64_t stall_s = 30;          // without a byte
  int64_t total_ms = 0;          // all hops together; 0: no limit
  int redirects_max = 5;
};

struct FetchRequest {
  std::string url;
  std::vector<FetchHeader> headers;
  std::string json_body;     // "" = GET, else POST
  std::string bearer_token;  // sent to the origin of `url` alone, whatever redirects say
  FetchLimits limits;
  FetchPolicy policy;
  // "host:port:address", instead of asking the system for the host's address. The policy sees it.
  std::vector<std::string> resolve;
  bool use_proxy = true;  // as http_proxy, https_proxy, all_proxy and no_proxy say
  // Looked at about once a second, and with every piece of the body.
  std::function<bool()> cancelled;
  // The final answer's head, before any of its body; then the body in pieces. Their errors end the
  // request and are its error. Bodies of statuses from 300 on are never given to on_bytes.
  std::function<Status(const FetchHead& head)> on_head;
  std::function<Status(std::string_view bytes)> on_bytes;  // empty: the body is kept
};

struct FetchResponse {
  FetchHead head;
  std::string body;  // what on_bytes did not get; of statuses from 300 on its first 64 KiB
};

// An answer of any status is a success here. Errors:
//   kInvalidArgument "invalid_url"; "redirect_refused": too many, or from https to http
//   kUnavailable     "unreachable", "timeout", "cut" (the body ended early), "tls"
//   kTooLarge        "too_large"
//   kCancelled       "cancelled"
//   whatever a callback returned
Result<FetchResponse> fetch(const FetchRequest& request);

}  // namespace hs
