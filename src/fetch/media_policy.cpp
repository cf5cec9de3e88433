#include "fetch/media_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace hs {
namespace {

struct Range {
  std::array<uint8_t, 16> base;
  unsigned prefix_bits;
  AddressScope scope;
};

constexpr AddressScope kPrivate = AddressScope::kPrivate;
constexpr AddressScope kNever = AddressScope::kNever;
constexpr AddressScope kPublic = AddressScope::kPublic;

// The first range that holds an address says what it is; IPv4 stands in the first four bytes.
constexpr Range kV4[] = {
    {{0}, 8, kNever},             // this network
    {{10}, 8, kPrivate},          // RFC 1918
    {{100, 64}, 10, kPrivate},    // carriers' NAT
    {{127}, 8, kPrivate},         // loopback
    {{169, 254}, 16, kNever},     // link-local, metadata services
    {{172, 16}, 12, kPrivate},    // RFC 1918
    {{192, 0, 0}, 24, kNever},    // protocol assignments
    {{192, 0, 2}, 24, kNever},    // documentation
    {{192, 88, 99}, 24, kNever},  // 6to4 relays
    {{192, 168}, 16, kPrivate},   // RFC 1918
    {{198, 18}, 15, kNever},      // benchmarks
    {{198, 51, 100}, 24, kNever},
    {{203, 0, 113}, 24, kNever},
    {{224}, 3, kNever},  // multicast, reserved, broadcast
    {{0}, 0, kPublic},
};
constexpr Range kV6[] = {
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128, kPrivate},  // loopback
    {{0xfd, 0x00, 0x0e, 0xc2}, 32, kNever},                             // a metadata service
    {{0xfc}, 7, kPrivate},                                              // unique local
    {{0x20, 0x01, 0x0d, 0xb8}, 32, kNever},                             // documentation
    {{0x20, 0x01}, 23, kNever},                                         // Teredo, ORCHID, ...
    {{0x3f, 0xff}, 20, kNever},                                         // documentation
    {{0x20}, 3, kPublic},                                               // global unicast
    {{0}, 0, kNever},  // all else: link-local, multicast, unspecified, unassigned
};

// IPv6 ranges whose addresses carry an IPv4 address, which begins at a byte.
struct Carrier {
  std::array<uint8_t, 16> base;
  unsigned prefix_bits;
  size_t v4_at;
};
constexpr Carrier kCarriers[] = {
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, 12},  // mapped
    {{0x00, 0x64, 0xff, 0x9b}, 96, 12},                    // NAT64
    {{0x20, 0x02}, 16, 2},                                 // 6to4
};

bool in_prefix(const std::array<uint8_t, 16>& address, const std::array<uint8_t, 16>& base,
               unsigned bits) {
  for (unsigned at = 0; at < bits; at += 8) {
    const unsigned left = std::min(bits - at, 8U);
    const unsigned mask = 0xffU << (8 - left) & 0xffU;
    if (((address[at / 8] ^ base[at / 8]) & mask) != 0) return false;
  }
  return true;
}

AddressScope scope_in(std::span<const Range> ranges, const std::array<uint8_t, 16>& address) {
  for (const Range& range : ranges)
    if (in_prefix(address, range.base, range.prefix_bits)) return range.scope;
  return kNever;
}

std::unexpected<Error> refused(std::string message) {
  return fail(ErrorKind::kInvalidArgument, std::move(message), "image_url_refused");
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// The dot that ends a fully qualified name changes nothing.
std::string_view without_last_dot(std::string_view host) {
  if (host.size() > 1 && host.ends_with('.')) host.remove_suffix(1);
  return host;
}

bool begins_in_any_case(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() &&
         std::ranges::equal(text.substr(0, lower_case.size()), lower_case, [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         });
}

}  // namespace

AddressScope scope_of(const ResolvedAddress& address) {
  if (!address.is_v6) return scope_in(kV4, address.bytes);
  for (const Carrier& carrier : kCarriers) {
    if (!in_prefix(address.bytes, carrier.base, carrier.prefix_bits)) continue;
    std::array<uint8_t, 16> v4{};
    std::copy_n(address.bytes.begin() + static_cast<std::ptrdiff_t>(carrier.v4_at), 4, v4.begin());
    return scope_in(kV4, v4);
  }
  return scope_in(kV6, address.bytes);
}

bool MediaPolicy::Entry::names(std::string_view asked) const {
  if (host.empty()) return true;
  if (!subdomains) return asked == host;
  return asked.size() > host.size() + 1 && asked.ends_with(host) &&
         asked[asked.size() - host.size() - 1] == '.';
}

bool MediaPolicy::Entry::opens(const Url& url) const {
  return port ? url.port == *port : url.port == (url.scheme == "https" ? 443 : 80);
}

Result<MediaPolicy::Entry> MediaPolicy::read_entry(std::string_view text) {
  const auto wrong = [&] {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("'{}' is no host: give example.org, example.org:8080, *.example.org or "
                            "*, without http:// and path",
                            text));
  };
  Entry entry;
  std::string_view host = text;
  if (host == "*") return entry;
  if (host.starts_with("*.")) {
    entry.subdomains = true;
    host.remove_prefix(2);
  }
  if (host.empty() || !is_ascii(host) || host.find_first_of("/?#@*%\\ ") != host.npos)
    return wrong();
  const auto url = parse_url(fmt::format("http://{}/", host));
  if (!url) return wrong();
  entry.host = without_last_dot(url->host);
  const size_t colon = host.rfind(':');
  const bool names_port = colon != host.npos && host.find(']', colon) == host.npos;
  if (names_port && colon + 1 == host.size()) return wrong();
  if (names_port) entry.port = url->port;
  return entry;
}

Result<MediaPolicy> MediaPolicy::make(std::span<const std::string> entries, bool allow_private) {
  MediaPolicy policy;
  policy.allow_private_ = allow_private;
  for (const std::string& text : entries) {
    auto entry = read_entry(text);
    if (!entry) return std::unexpected(entry.error());
    policy.entries_.push_back(*std::move(entry));
  }
  return policy;
}

Status MediaPolicy::allow_url(const Url& url) const {
  if (!is_ascii(url.host))
    return refused("The picture's host must be written in ASCII (punycode).");
  const std::string_view host = without_last_dot(url.host);
  bool named = false;
  for (const Entry& entry : entries_) {
    if (!entry.names(host)) continue;
    if (entry.opens(url)) return {};
    named = true;
  }
  if (named)
    return refused(
        fmt::format("This server fetches no pictures from port {} of {}.", url.port, host));
  return refused(fmt::format(
      "This server fetches no pictures from {}: it is not one of --allowed-media-domains.", host));
}

Status MediaPolicy::allow_address(const Url& url, const ResolvedAddress& address) const {
  const AddressScope scope = scope_of(address);
  if (scope == AddressScope::kPublic || (allow_private_ && scope == AddressScope::kPrivate))
    return {};
  return refused(fmt::format(
      "{} has an address that this server fetches no pictures from: it is not a public one.",
      url.host));
}

bool is_web_url(std::string_view text) {
  return begins_in_any_case(text, "http://") || begins_in_any_case(text, "https://");
}

}  // namespace hs
