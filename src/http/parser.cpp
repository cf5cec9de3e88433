#include "http/parser.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/check.h"

namespace hs {
namespace {

// Larger bodies grow as they arrive: an announced length alone costs no memory.
constexpr size_t kBodyReserveMax = 1 << 20;

constexpr std::string_view kUnknownCoding = "Only the Transfer-Encoding 'chunked' is known.";

bool is_token_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::ranges::equal(
      text, lower, [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

size_t count_headers(const HttpRequest& request, std::string_view name) {
  return static_cast<size_t>(std::ranges::count(
      request.headers, name, [](const HttpHeader& h) -> std::string_view { return h.name; }));
}

bool is_known_method(uint8_t method) {
  static constexpr std::array kKnown = {HTTP_GET,    HTTP_HEAD,    HTTP_POST, HTTP_PUT,
                                        HTTP_DELETE, HTTP_OPTIONS, HTTP_PATCH};
  return std::ranges::any_of(kKnown, [&](llhttp_method_t each) { return method == each; });
}

}  // namespace

// llhttp's callbacks, each handing over to the parser that owns it. A nonzero return stops llhttp.
struct HttpParser::Callbacks {
  template <int (HttpParser::*member)(std::string_view)>
  static int data(llhttp_t* llhttp, const char* at, size_t length) {
    return (static_cast<HttpParser*>(llhttp->data)->*member)({at, length});
  }
  template <int (HttpParser::*member)()>
  static int event(llhttp_t* llhttp) {
    return (static_cast<HttpParser*>(llhttp->data)->*member)();
  }

  static llhttp_settings_t make() {
    llhttp_settings_t settings;
    llhttp_settings_init(&settings);
    settings.on_url = data<&HttpParser::on_target>;
    settings.on_header_field = data<&HttpParser::on_header_name>;
    settings.on_header_value = data<&HttpParser::on_header_value>;
    settings.on_header_value_complete = event<&HttpParser::on_header_done>;
    settings.on_headers_complete = event<&HttpParser::finish_head>;
    settings.on_body = data<&HttpParser::on_body>;
    settings.on_chunk_extension_name = data<&HttpParser::on_chunk_extension>;
    settings.on_chunk_extension_value = data<&HttpParser::on_chunk_extension>;
    settings.on_chunk_header = event<&HttpParser::on_chunk_header>;
    settings.on_message_complete = [](llhttp_t* llhttp) {
      static_cast<HttpParser*>(llhttp->data)->state_ = State::kDone;
      return static_cast<int>(HPE_PAUSED);
    };
    return settings;
  }
  static const llhttp_settings_t& shared() {
    static const llhttp_settings_t settings = make();
    return settings;
  }
};

HttpParser::HttpParser(const HttpLimits& limits) : limits_(limits) {
  next();
}

void HttpParser::next() {
  llhttp_init(&llhttp_, HTTP_REQUEST, &Callbacks::shared());
  llhttp_.data = this;
  state_ = State::kHead;
  request_ = {};
  target_.clear();
  header_ = {};
  head_bytes_ = trailer_bytes_ = chunk_extension_bytes_ = 0;
  last_byte_ = '\n';  // a head begins like a line
  entering_trailers_ = in_trailers_ = keep_alive_ = http10_ = expects_continue_ = has_body_ = false;
}

void HttpParser::read_body() {
  HS_CHECK(state_ == State::kHeadDone);
  state_ = State::kBody;
  llhttp_resume(&llhttp_);
  // Without a body there is nothing more to take, so that the message ends here.
  if (!has_body_) state_ = State::kDone;
}

size_t HttpParser::feed(std::string_view bytes) {
  size_t taken = feed_part(bytes);
  if (!std::exchange(entering_trailers_, false)) return taken;
  // llhttp stopped behind the last chunk's size line, so that the lines from here on can be
  // checked.
  in_trailers_ = true;
  last_byte_ = '\n';
  llhttp_resume(&llhttp_);
  taken += feed_part(bytes.substr(taken));
  return taken;
}

size_t HttpParser::feed_part(std::string_view bytes) {
  if (bytes.empty() || (state_ != State::kHead && state_ != State::kBody)) return 0;
  const bool in_head = state_ == State::kHead;
  const bool in_lines = in_head || in_trailers_;
  if (in_head && head_bytes_ == 0) first_byte_ = bytes.front();
  // One more than the limit, so that a head at the limit passes and a longer one is seen to be
  // longer.
  std::string_view part = bytes;
  if (in_head) part = part.substr(0, limits_.head_bytes_max + 1 - head_bytes_);

  const llhttp_errno_t error = llhttp_execute(&llhttp_, part.data(), part.size());
  size_t taken = part.size();
  if (const char* stopped = llhttp_get_error_pos(&llhttp_); error != HPE_OK && stopped != nullptr)
    taken = static_cast<size_t>(stopped - part.data());
  if (error != HPE_OK && error != HPE_PAUSED && state_ != State::kFailed)
    refuse_llhttp_error(error, part);
  if (in_lines) scan_line_ends(part.substr(0, taken));
  if (in_head) count_head(taken);
  return taken;
}

void HttpParser::count_head(size_t taken) {
  head_bytes_ += taken;
  const bool open = state_ == State::kHead || state_ == State::kHeadDone;
  if (!open || head_bytes_ <= limits_.head_bytes_max) return;
  if (request_.headers.empty() && header_.name.empty())
    refuse(414, "The request target is too long.");
  else
    refuse(431, "The request's headers are too large.");
}

int HttpParser::refuse(int status, std::string_view message) {
  if (state_ == State::kFailed) return HPE_USER;  // the first reason stands
  state_ = State::kFailed;
  failure_status_ = status;
  failure_message_ = message;
  keep_alive_ = false;
  request_.head_only = llhttp_.method == HTTP_HEAD;
  return HPE_USER;
}

void HttpParser::refuse_llhttp_error(llhttp_errno_t error, std::string_view bytes) {
  switch (error) {
    case HPE_INVALID_METHOD:
      // A word that could be a method is one this server does not know; anything else is not HTTP.
      if (std::isupper(static_cast<unsigned char>(first_byte_)) != 0 &&
          bytes.find('\0') == bytes.npos)
        refuse(501, "The request method is not known.");
      else
        refuse(400, "This is not an HTTP request.");
      return;
    case HPE_INVALID_VERSION:
    case HPE_PAUSED_H2_UPGRADE:
      refuse(505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.");
      return;
    case HPE_INVALID_CONTENT_LENGTH:
    case HPE_UNEXPECTED_CONTENT_LENGTH:
      refuse(400, "The request's length is given wrongly or more than once.");
      return;
    case HPE_INVALID_CHUNK_SIZE:
      refuse(400, "The request body's chunks are malformed.");
      return;
    case HPE_INVALID_TRANSFER_ENCODING:
      refuse(501, kUnknownCoding);
      return;
    default:
      refuse(400, "The request is malformed.");
      return;
  }
}

// llhttp takes a lone LF for a line end and joins folded headers; proxies in front may not, so both
// are refused.
void HttpParser::scan_line_ends(std::string_view bytes) {
  if (state_ == State::kFailed) return;
  for (const char c : bytes) {
    const bool after_cr = last_byte_ == '\r';
    if (after_cr != (c == '\n')) {
      refuse(400, "Lines must end with CR LF.");
      return;
    }
    if (last_byte_ == '\n' && (c == ' ' || c == '\t')) {
      refuse(400, "Header lines must not be folded.");
      return;
    }
    last_byte_ = c;
  }
}

int HttpParser::on_target(std::string_view part) {
  if (target_.size() + part.size() > limits_.target_bytes_max)
    return refuse(414, "The request target is too long.");
  target_ += part;
  return 0;
}

int HttpParser::on_header_name(std::string_view part) {
  if (in_trailers_) {
    // Trailers are read over, within the limit of a head.
    trailer_bytes_ += part.size();
    return trailer_bytes_ > limits_.head_bytes_max ? refuse(431, "The trailers are too large.") : 0;
  }
  if (request_.headers.size() >= limits_.n_headers_max)
    return refuse(431, "The request has too many headers.");
  header_.name += part;
  return 0;
}

int HttpParser::on_header_value(std::string_view part) {
  if (in_trailers_) return on_header_name(part);
  header_.value += part;
  return 0;
}

int HttpParser::on_header_done() {
  if (in_trailers_) return 0;
  if (header_.name.empty() || !std::ranges::all_of(header_.name, is_token_char))
    return refuse(400, "A header's name is malformed.");
  for (char& c : header_.name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  header_.value = trimmed(header_.value);
  request_.headers.push_back(std::exchange(header_, {}));
  return 0;
}

// Origin form, absolute form (reduced to its path), or "*".
bool HttpParser::finish_target() {
  std::string_view target = target_;
  if (target.find('#') != target.npos) return false;
  if (const size_t scheme = target.find("://"); scheme != target.npos && !target.starts_with('/')) {
    const std::string_view name = target.substr(0, scheme);
    if (!equals_ignoring_case(name, "http") && !equals_ignoring_case(name, "https")) return false;
    const size_t path = target.find_first_of("/?", scheme + 3);
    if (path == scheme + 3) return false;
    target = path == target.npos ? "/" : target.substr(path);
  }
  const size_t question = std::min(target.find('?'), target.size());
  request_.path = target.substr(0, question);
  request_.query = target.substr(std::min(question + 1, target.size()));
  if (request_.path.empty()) request_.path = "/";  // "http://host?query"
  return request_.path.starts_with('/') ||
         (request_.path == "*" && llhttp_.method == HTTP_OPTIONS && request_.query.empty());
}

int HttpParser::finish_head() {
  if (llhttp_.http_major != 1 || llhttp_.http_minor > 1)
    return refuse(505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.");
  http10_ = llhttp_.http_minor == 0;
  const auto method = static_cast<llhttp_method_t>(llhttp_.method);
  if (!is_known_method(llhttp_.method)) return refuse(501, "The request method is not known.");
  request_.head_only = method == HTTP_HEAD;
  request_.method = request_.head_only ? "GET" : llhttp_method_name(method);
  if (!finish_target()) return refuse(400, "The request target is malformed.");
  const size_t n_hosts = count_headers(request_, "host");
  if (n_hosts > 1 || (n_hosts == 0 && !http10_))
    return refuse(400, "Exactly one Host header is needed.");
  keep_alive_ = http10_ ? (llhttp_.flags & F_CONNECTION_KEEP_ALIVE) != 0 &&
                              (llhttp_.flags & F_CONNECTION_CLOSE) == 0
                        : (llhttp_.flags & F_CONNECTION_CLOSE) == 0;
  // An offer to change protocols is declined by answering in this one.
  llhttp_.upgrade = 0;
  if (const int stop = finish_transfer_headers(); stop != 0) return stop;
  state_ = State::kHeadDone;
  return HPE_PAUSED;
}

int HttpParser::finish_transfer_headers() {
  const bool chunked = count_headers(request_, "transfer-encoding") > 0;
  if (chunked) {
    if (http10_) return refuse(400, "HTTP/1.0 has no Transfer-Encoding.");
    if (count_headers(request_, "transfer-encoding") > 1 ||
        !equals_ignoring_case(request_.header("transfer-encoding"), "chunked"))
      return refuse(501, kUnknownCoding);
    if (count_headers(request_, "content-length") > 0)
      return refuse(400, "Content-Length and Transfer-Encoding exclude each other.");
  }
  if (count_headers(request_, "content-length") > 1)
    return refuse(400, "Content-Length is given more than once.");
  const std::string_view coding = request_.header("content-encoding");
  if (!coding.empty() && !equals_ignoring_case(coding, "identity"))
    return refuse(415, "Compressed request bodies are not accepted.");
  const std::string_view expectation = request_.header("expect");
  if (!expectation.empty() && !http10_) {
    if (!equals_ignoring_case(expectation, "100-continue"))
      return refuse(417, "This expectation is not known.");
    expects_continue_ = true;
  }
  if (!chunked && llhttp_.content_length > limits_.body_bytes_max)
    return refuse(413, "The request body is too large.");
  has_body_ = chunked || llhttp_.content_length > 0;
  if (!chunked)
    request_.body.reserve(std::min(static_cast<size_t>(llhttp_.content_length), kBodyReserveMax));
  return 0;
}

int HttpParser::on_body(std::string_view part) {
  if (request_.body.size() + part.size() > limits_.body_bytes_max)
    return refuse(413, "The request body is too large.");
  request_.body += part;
  return 0;
}

int HttpParser::on_chunk_header() {
  entering_trailers_ = llhttp_.content_length == 0;
  return entering_trailers_ ? HPE_PAUSED : 0;
}

int HttpParser::on_chunk_extension(std::string_view part) {
  chunk_extension_bytes_ += part.size();
  if (chunk_extension_bytes_ > limits_.chunk_extension_bytes_max)
    return refuse(400, "The chunk extensions are too large.");
  return 0;
}

}  // namespace hs
