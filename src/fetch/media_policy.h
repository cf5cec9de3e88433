// From where pictures may be fetched: hosts that an administrator lists, at addresses of the public
// internet. What a host's name says and what address it has are judged apart, because whoever owns
// a name may point it anywhere (server-side request forgery, CWE-918).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fetch/fetch.h"
#include "fetch/url.h"

namespace hs {

// What may be at an address, by IANA's special-purpose registries (RFC 6890 and its updates).
enum class AddressScope {
  kPublic,
  kPrivate,  // loopback, RFC 1918, RFC 6598, unique local: of this machine or its network
  kNever,    // link-local, and so the metadata services of clouds; multicast, reserved, unspecified
};
// An IPv6 address that carries an IPv4 address (mapped, NAT64, 6to4) is at most as good as that.
AddressScope scope_of(const ResolvedAddress& address);

// Immutable; any thread.
class MediaPolicy {
 public:
  // Entries: "host" (ports 80 and 443), "host:port", "*.example.org" (its subdomains), "*" (every
  // host); IPv6 addresses in brackets. `allow_private` lets listed hosts have addresses of
  // kPrivate, too. kInvalidArgument names the entry.
  static Result<MediaPolicy> make(std::span<const std::string> entries, bool allow_private);

  // kInvalidArgument "image_url_refused", in words for the client.
  Status allow_url(const Url& url) const;
  Status allow_address(const Url& url, const ResolvedAddress& address) const;

 private:
  struct Entry {
    std::string host;  // "" = every host
    bool subdomains = false;
    std::optional<uint16_t> port;  // absent: the scheme's own

    bool names(std::string_view asked) const;
    bool opens(const Url& url) const;
  };
  static Result<Entry> read_entry(std::string_view text);

  std::vector<Entry> entries_;
  bool allow_private_ = false;
};

// Whether the text names a picture by http or https, in any case.
bool is_web_url(std::string_view text);

}  // namespace hs
