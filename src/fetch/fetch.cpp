#include "fetch/fetch.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

namespace hs {
namespace {

constexpr size_t kErrorBodyBytesMax = 64 << 10;
constexpr size_t kHeadBytesMax = 256 << 10;
constexpr int kRedirects[] = {301, 302, 303, 307, 308};

using SteadyClock = std::chrono::steady_clock;

struct EasyFree {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct ListFree {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Easy = std::unique_ptr<CURL, EasyFree>;
using HeaderList = std::unique_ptr<curl_slist, ListFree>;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::strchr(" \t\r\n", text.front()) != nullptr) text.remove_prefix(1);
  while (!text.empty() && std::strchr(" \t\r\n", text.back()) != nullptr) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// One request to one origin, and what its callbacks found out.
struct Hop {
  const FetchRequest& request;
  FetchHead head;
  size_t head_bytes = 0;
  bool head_told = false;
  std::string body;
  int64_t body_bytes = 0;
  std::optional<Error> refused;  // by a callback of the request or a limit

  bool is_redirect() const {
    return std::ranges::find(kRedirects, head.status) != std::end(kRedirects) &&
           !head.header("location").empty();
  }
  bool stop(Error error) {
    if (!refused) refused = std::move(error);
    return false;
  }
  bool check(const Status& status) { return status || stop(status.error()); }
  bool cancelled() const { return request.cancelled && request.cancelled(); }
  bool tell_head();
  bool take(std::string_view bytes);
  void take_header_line(std::string_view line);
};

Error too_large(int64_t bytes_max) {
  return {ErrorKind::kTooLarge, fmt::format("The answer is larger than {} bytes.", bytes_max),
          "too_large", ""};
}

// Before the first byte of the final answer's body.
bool Hop::tell_head() {
  if (head_told || is_redirect()) return true;
  head_told = true;
  const std::string_view announced = head.header("content-length");
  int64_t length = 0;
  std::from_chars(announced.data(), announced.data() + announced.size(), length);
  if (head.status < 300 && length > request.limits.bytes_max)
    return stop(too_large(request.limits.bytes_max));
  return !request.on_head || check(request.on_head(head));
}

bool Hop::take(std::string_view bytes) {
  if (!tell_head()) return false;
  if (cancelled())
    return stop({ErrorKind::kCancelled, "The download was cancelled.", "cancelled", ""});
  if (head.status >= 300) {
    body += bytes.substr(0, kErrorBodyBytesMax - std::min(kErrorBodyBytesMax, body.size()));
    return true;
  }
  body_bytes += static_cast<int64_t>(bytes.size());
  if (body_bytes > request.limits.bytes_max) return stop(too_large(request.limits.bytes_max));
  if (request.on_bytes) return check(request.on_bytes(bytes));
  body += bytes;
  return true;
}

void Hop::take_header_line(std::string_view line) {
  if (line.starts_with("HTTP/")) {  // also after a "100 Continue"
    head.headers.clear();
    head.status = 0;
    const size_t space = line.find(' ');
    if (space != line.npos && line.size() >= space + 4)
      std::from_chars(line.data() + space + 1, line.data() + space + 4, head.status);
    return;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos) return;
  head.headers.push_back(
      {lower(trimmed(line.substr(0, colon))), std::string(trimmed(line.substr(colon + 1)))});
}

size_t on_header(char* data, size_t, size_t bytes, void* user) {
  Hop& hop = *static_cast<Hop*>(user);
  hop.head_bytes += bytes;
  if (hop.head_bytes > kHeadBytesMax) {
    hop.stop({ErrorKind::kTooLarge, "The answer's head is too large.", "too_large", ""});
    return 0;
  }
  hop.take_header_line({data, bytes});
  return bytes;
}

size_t on_body(char* data, size_t, size_t bytes, void* user) {
  Hop& hop = *static_cast<Hop*>(user);
  if (hop.is_redirect()) return bytes;
  return hop.take({data, bytes}) ? bytes : 0;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  Hop& hop = *static_cast<Hop*>(user);
  if (!hop.cancelled()) return 0;
  hop.stop({ErrorKind::kCancelled, "The download was cancelled.", "cancelled", ""});
  return 1;
}

ResolvedAddress address_of(const curl_sockaddr& address) {
  ResolvedAddress out;
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address.addr, sizeof v4);
    std::memcpy(out.bytes.data(), &v4.sin_addr, 4);
    out.port = ntohs(v4.sin_port);
  } else {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address.addr, std::min<size_t>(sizeof v6, address.addrlen));
    std::memcpy(out.bytes.data(), &v6.sin6_addr, 16);
    out.port = ntohs(v6.sin6_port);
    out.is_v6 = true;
  }
  inet_ntop(address.family, out.bytes.data(), text, sizeof text);
  out.text = text;
  return out;
}

// libcurl connects the socket it gets to exactly this address: no second look-up comes between.
curl_socket_t on_open_socket(void* user, curlsocktype, curl_sockaddr* address) {
  Hop& hop = *static_cast<Hop*>(user);
  const bool known = address->family == AF_INET || address->family == AF_INET6;
  if (hop.request.policy.allow_address &&
      (!known || !hop.check(hop.request.policy.allow_address(hop.head.url, address_of(*address)))))
    return CURL_SOCKET_BAD;
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

template <typename Value>
void set(CURL* easy, CURLoption option, Value value) {
  curl_easy_setopt(easy, option, value);
}

void append(HeaderList& list, const std::string& line) {
  if (curl_slist* grown = curl_slist_append(list.get(), line.c_str()); grown != nullptr) {
    static_cast<void>(list.release());
    list.reset(grown);
  }
}

HeaderList headers_of(const FetchRequest& request, bool with_token) {
  HeaderList list;
  const auto add = [&list](const std::string& line) { append(list, line); };
  for (const FetchHeader& header : request.headers)
    add(fmt::format("{}: {}", header.name, header.value));
  if (with_token && !request.bearer_token.empty())
    add("Authorization: Bearer " + request.bearer_token);
  if (!request.json_body.empty()) {
    add("Content-Type: application/json");
    add("Expect:");
  }
  return list;
}

HeaderList list_of(const std::vector<std::string>& lines) {
  HeaderList list;
  for (const std::string& line : lines) append(list, line);
  return list;
}

void configure(CURL* easy, Hop& hop, curl_slist* headers, int64_t total_ms) {
  const FetchRequest& request = hop.request;
  set(easy, CURLOPT_URL, hop.head.url.text.c_str());
  set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy, CURLOPT_NOSIGNAL, 1L);
  set(easy, CURLOPT_FOLLOWLOCATION, 0L);
  set(easy, CURLOPT_USERAGENT, "heteroserve");
  set(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(easy, CURLOPT_HTTPHEADER, headers);
  set(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.limits.connect_ms));
  set(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.limits.stall_s));
  if (total_ms > 0) set(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(total_ms));
  if (!request.use_proxy) set(easy, CURLOPT_PROXY, "");
  if (!request.json_body.empty()) {
    set(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.json_body.size()));
    set(easy, CURLOPT_POSTFIELDS, request.json_body.c_str());
  }
  set(easy, CURLOPT_HEADERFUNCTION, &on_header);
  set(easy, CURLOPT_HEADERDATA, static_cast<void*>(&hop));
  set(easy, CURLOPT_WRITEFUNCTION, &on_body);
  set(easy, CURLOPT_WRITEDATA, static_cast<void*>(&hop));
  set(easy, CURLOPT_NOPROGRESS, 0L);
  set(easy, CURLOPT_XFERINFOFUNCTION, &on_progress);
  set(easy, CURLOPT_XFERINFODATA, static_cast<void*>(&hop));
  set(easy, CURLOPT_OPENSOCKETFUNCTION, &on_open_socket);
  set(easy, CURLOPT_OPENSOCKETDATA, static_cast<void*>(&hop));
}

std::unexpected<Error> transfer_error(CURLcode code, const char* detail, const Url& url) {
  const std::string why = *detail != '\0' ? detail : curl_easy_strerror(code);
  const std::string where = fmt::format("{}:{}", url.host, url.port);
  const auto unavailable = [&](const char* word) {
    return fail(ErrorKind::kUnavailable, fmt::format("{}: {}", where, why), word);
  };
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return unavailable("timeout");
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return unavailable("cut");
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return unavailable("tls");
    case CURLE_OUT_OF_MEMORY:
      return fail(ErrorKind::kResourceExhausted, "no memory for the download");
    default:
      return unavailable("unreachable");
  }
}

Status perform(Hop& hop, bool with_token, int64_t total_ms) {
  const Easy easy(curl_easy_init());
  if (easy == nullptr) return fail(ErrorKind::kResourceExhausted, "no memory for the download");
  const HeaderList headers = headers_of(hop.request, with_token);
  const HeaderList resolve = list_of(hop.request.resolve);
  char detail[CURL_ERROR_SIZE] = "";
  set(easy.get(), CURLOPT_ERRORBUFFER, static_cast<char*>(detail));
  configure(easy.get(), hop, headers.get(), total_ms);
  if (resolve != nullptr) set(easy.get(), CURLOPT_RESOLVE, resolve.get());
  const CURLcode code = curl_easy_perform(easy.get());
  if (code == CURLE_OK) hop.tell_head();  // an answer without a body
  // One refused address is no error where another was allowed and answered.
  if (hop.refused && (code != CURLE_OK || hop.head_told)) return std::unexpected(*hop.refused);
  if (code != CURLE_OK) return transfer_error(code, detail, hop.head.url);
  return {};
}

// What is left of all hops' time; 0: no limit, negative: none.
int64_t remaining_ms(const FetchLimits& limits, SteadyClock::time_point begin) {
  if (limits.total_ms == 0) return 0;
  const auto spent =
      std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - begin).count();
  return spent >= limits.total_ms ? -1 : limits.total_ms - spent;
}

std::unexpected<Error> redirect_refused(std::string message) {
  return fail(ErrorKind::kInvalidArgument, std::move(message), "redirect_refused");
}

}  // namespace

std::string_view FetchHead::header(std::string_view lower_name) const {
  for (const FetchHeader& candidate : headers)
    if (candidate.name == lower_name) return candidate.value;
  return {};
}

Result<FetchResponse> fetch(const FetchRequest& request) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialised != CURLE_OK) return fail(ErrorKind::kInternal, "libcurl cannot be initialised");
  const auto first = parse_url(request.url);
  if (!first) return std::unexpected(first.error());
  const auto begin = SteadyClock::now();
  Url url = *first;
  // A redirect that came back to the first origin by way of another is no longer ours to trust.
  bool with_token = true;
  for (int n = 0; n <= request.limits.redirects_max; ++n) {
    if (request.policy.allow_url)
      if (Status allowed = request.policy.allow_url(url, n); !allowed)
        return std::unexpected(allowed.error());
    with_token = with_token && url.same_origin(*first);
    const int64_t left_ms = remaining_ms(request.limits, begin);
    if (left_ms < 0) return fail(ErrorKind::kUnavailable, "The download took too long.", "timeout");
    Hop hop{.request = request, .head = {}, .body = {}, .refused = {}};
    hop.head.url = url;
    if (Status done = perform(hop, with_token, left_ms); !done)
      return std::unexpected(done.error());
    if (!hop.is_redirect()) return FetchResponse{std::move(hop.head), std::move(hop.body)};
    if (!request.json_body.empty())
      return redirect_refused("The server redirects a request that has a body.");
    const auto next = resolve_url(url, hop.head.header("location"));
    if (!next) return std::unexpected(next.error());
    if (url.scheme == "https" && next->scheme == "http")
      return redirect_refused(fmt::format("{} redirects from https to http.", url.host));
    url = *next;
  }
  return redirect_refused(
      fmt::format("{} redirects more than {} times.", first->host, request.limits.redirects_max));
}

}  // namespace hs
