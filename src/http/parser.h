// Bytes of one connection to owned requests, with the limits of a server on the open network.
#pragma once

#include <llhttp.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/handler.h"
#include "http/limits.h"

namespace hs {

// RFC 9112, strictly: what two implementations could read differently (two lengths, bare CR or LF,
// folded headers, space before a colon) is refused. llhttp splits the bytes; this class owns what
// it found and adds what llhttp leaves open: limits, line ends, which methods, versions, codings
// and expectations the server knows.
//
// States, and what feed() does in each:
//   kHead      takes bytes until the head is complete -> kHeadDone, or refuses it -> kFailed
//   kHeadDone  takes nothing: the caller looks at request() and either calls read_body() -> kBody
//   or gives up kBody      takes bytes until the body is complete -> kDone, or refuses it ->
//   kFailed kDone      takes nothing: the caller takes the request and calls next() -> kHead
//   kFailed    takes nothing, for ever: failure_status() and failure_message() say what to answer
//   before closing
class HttpParser {
 public:
  enum class State : uint8_t { kHead, kHeadDone, kBody, kDone, kFailed };

  explicit HttpParser(const HttpLimits& limits);
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // How many bytes were taken; all of them unless a state that takes nothing was reached.
  size_t feed(std::string_view bytes);

  State state() const { return state_; }
  void read_body();
  void next();

  // From kHeadDone on; the body is complete in kDone.
  HttpRequest& request() { return request_; }
  // Valid from kHeadDone on; before that as far as the head was read.
  bool keep_alive() const { return keep_alive_; }
  bool is_http10() const { return http10_; }
  bool expects_continue() const { return expects_continue_; }
  bool has_body() const { return has_body_; }
  size_t body_bytes() const { return request_.body.size(); }

  bool head_started() const { return head_bytes_ > 0; }

  int failure_status() const { return failure_status_; }
  std::string_view failure_message() const { return failure_message_; }

 private:
  enum class Field : uint8_t { kNone, kName, kValue };
  struct Callbacks;

  int refuse(int status, std::string_view message);
  void refuse_llhttp_error(llhttp_errno_t error, std::string_view bytes);
  size_t feed_part(std::string_view bytes);
  void count_head(size_t taken);
  void scan_line_ends(std::string_view bytes);
  bool finish_target();
  int finish_head();
  int finish_transfer_headers();
  int on_target(std::string_view part);
  int on_header_name(std::string_view part);
  int on_header_value(std::string_view part);
  int on_header_done();
  int on_body(std::string_view part);
  int on_chunk_header();
  int on_chunk_extension(std::string_view part);

  const HttpLimits& limits_;
  llhttp_t llhttp_{};
  State state_ = State::kHead;
  HttpRequest request_;
  std::string target_;
  HttpHeader header_;      // the one being read
  size_t head_bytes_ = 0;  // taken for this head
  size_t trailer_bytes_ = 0;
  size_t chunk_extension_bytes_ = 0;
  char last_byte_ = 0;  // of the head or the trailers, for line ends across reads
  char first_byte_ = 0;
  bool entering_trailers_ = false;
  bool in_trailers_ = false;
  bool keep_alive_ = false;
  bool http10_ = false;
  bool expects_continue_ = false;
  bool has_body_ = false;
  int failure_status_ = 0;
  std::string failure_message_;
};

}  // namespace hs
