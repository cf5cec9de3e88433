// Any bytes give the same requests and the same end, read in one piece or byte by byte, and no
// limit is passed.
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/parser.h"

namespace {

hs::HttpLimits small_limits() {
  hs::HttpLimits limits;
  limits.target_bytes_max = 256;
  limits.head_bytes_max = 1024;
  limits.n_headers_max = 16;
  limits.chunk_extension_bytes_max = 64;
  limits.body_bytes_max = 512;
  return limits;
}

void expect(bool holds) {
  if (!holds) std::abort();
}

void check(const hs::HttpRequest& request, const hs::HttpLimits& limits) {
  expect(request.headers.size() <= limits.n_headers_max);
  expect(request.body.size() <= limits.body_bytes_max);
  expect(request.path.size() + request.query.size() <= limits.target_bytes_max + 1);
  expect(!request.path.empty() && !request.method.empty());
  for (const hs::HttpHeader& header : request.headers) {
    expect(!header.name.empty());
    expect(header.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
  }
}

// What was read, as text, ending with how it ended.
std::string read_all(std::string_view bytes, size_t piece_bytes) {
  using State = hs::HttpParser::State;
  const hs::HttpLimits limits = small_limits();
  hs::HttpParser parser(limits);
  std::string out;
  size_t at = 0;
  while (at < bytes.size() && parser.state() != State::kFailed) {
    const std::string_view piece = bytes.substr(at, piece_bytes);
    const size_t taken = parser.feed(piece);
    expect(taken <= piece.size());
    at += taken;
    if (parser.state() == State::kHeadDone) parser.read_body();
    if (parser.state() == State::kDone) {
      check(parser.request(), limits);
      const hs::HttpRequest& request = parser.request();
      out += request.method + ' ' + request.path + '?' + request.query + '\n';
      for (const hs::HttpHeader& header : request.headers)
        out += header.name + ':' + header.value + '\n';
      out += request.body + (parser.keep_alive() ? "|keep\n" : "|close\n");
      parser.next();
    } else if (parser.state() != State::kFailed) {
      expect(taken > 0);
    }
  }
  if (parser.state() == State::kFailed) {
    expect(parser.failure_status() >= 400 && !parser.failure_message().empty());
    out += "failed";
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  expect(read_all(bytes, bytes.size() + 1) == read_all(bytes, 1));
  return 0;
}
