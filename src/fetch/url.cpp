#include "fetch/url.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

namespace hs {
namespace {

constexpr size_t kUrlBytesMax = 8192;

struct UrlFree {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using UrlHandle = std::unique_ptr<CURLU, UrlFree>;

// "" where the URL has no such part.
std::string part(CURLU* url, CURLUPart which, unsigned flags = 0) {
  char* value = nullptr;
  if (curl_url_get(url, which, &value, flags) != CURLUE_OK) return {};
  std::string copy = value;
  curl_free(value);
  return copy;
}

std::unexpected<Error> invalid(std::string message) {
  return fail(ErrorKind::kInvalidArgument, std::move(message), "invalid_url");
}

Result<Url> read(CURLU* url) {
  Url out;
  out.scheme = part(url, CURLUPART_SCHEME);
  if (out.scheme != "http" && out.scheme != "https")
    return invalid("The URL must begin with http:// or https://.");
  if (!part(url, CURLUPART_USER).empty() || !part(url, CURLUPART_PASSWORD).empty())
    return invalid("The URL must not hold a user or password.");
  curl_url_set(url, CURLUPART_FRAGMENT, nullptr, 0);
  out.host = part(url, CURLUPART_HOST);
  if (out.host.starts_with('[') && out.host.ends_with(']'))
    out.host = out.host.substr(1, out.host.size() - 2);
  std::ranges::transform(out.host, out.host.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (out.host.empty()) return invalid("The URL names no host.");
  const std::string port = part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc() || end != port.data() + port.size() || out.port == 0)
    return invalid("The URL names no good port.");
  out.text = part(url, CURLUPART_URL);
  return out;
}

bool has_bad_bytes(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) <= 0x20; });
}

Result<UrlHandle> parse(std::string_view text) {
  if (text.size() > kUrlBytesMax) return invalid("The URL is too long.");
  if (has_bad_bytes(text)) return invalid("The URL holds spaces or control characters.");
  UrlHandle url(curl_url());
  if (url == nullptr) return fail(ErrorKind::kResourceExhausted, "no memory for a URL");
  if (const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, std::string(text).c_str(), 0);
      code != CURLUE_OK)
    return invalid(fmt::format("This is not a URL: {}.", curl_url_strerror(code)));
  return url;
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  const auto url = parse(text);
  if (!url) return std::unexpected(url.error());
  return read(url->get());
}

Result<Url> resolve_url(const Url& base, std::string_view location) {
  if (location.size() > kUrlBytesMax) return invalid("The redirect's URL is too long.");
  if (has_bad_bytes(location))
    return invalid("The redirect's URL holds spaces or control characters.");
  const auto url = parse(base.text);
  if (!url) return std::unexpected(url.error());
  if (const CURLUcode code =
          curl_url_set(url->get(), CURLUPART_URL, std::string(location).c_str(), 0);
      code != CURLUE_OK)
    return invalid(fmt::format("The redirect leads to no URL: {}.", curl_url_strerror(code)));
  return read(url->get());
}

std::string escaped_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~' || c == '/';
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace hs
