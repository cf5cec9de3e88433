// What the HTTP server needs from whoever answers, and what it offers them. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hs {

struct HttpHeader {
  std::string name;  // lower case in requests
  std::string value;
};

struct HttpRequest {
  std::string method;  // "GET", ...; HEAD arrives as "GET" with head_only, the body of the answer
                       // is not sent
  std::string path;    // without query, not percent-decoded
  std::string query;   // after '?', or ""
  std::vector<HttpHeader> headers;
  std::string body;
  std::string peer;  // "127.0.0.1:50312"
  bool head_only = false;

  std::string_view header(std::string_view lower_case_name) const {
    for (const HttpHeader& h : headers)
      if (h.name == lower_case_name) return h.value;
    return {};
  }
};

struct HttpResponse {
  int status = 200;
  std::vector<HttpHeader> headers;  // Content-Length, Connection and Date are the server's
  std::string body;
};

// Answers one request. Shared by the connection and whoever produces the answer; after the client
// has gone every call is a no-op. Either send() once, or start_stream(), write() any number of
// times, end(). Dropping a writer before its answer is complete gives the client a 500, or cuts its
// stream off with a reset.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  virtual void send(HttpResponse response) = 0;
  virtual void start_stream(int status, std::vector<HttpHeader> headers) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;
  // Bytes written but not yet taken by the client's socket. The server drops a client that leaves
  // more than its cap unread for longer than the stall time-out.
  virtual size_t pending_bytes() const = 0;
  // Called once if the client leaves before the answer is complete: at once if it already has,
  // otherwise from the loop and never from within write() or send().
  virtual void on_client_gone(std::function<void()> callback) = 0;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Before the body is read (body empty): an answer here refuses the request without reading it
  // (404, 405, 401, ...). Size limits and framing are the server's own business.
  virtual std::optional<HttpResponse> check_head(const HttpRequest& head) = 0;
  virtual void handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) = 0;
  // An error of the protocol itself (413, 431, 400 malformed, 408): the body to send, in the API's
  // own shape. `head`: the request as far as it was read. A client that leaves before its request
  // is complete gets no answer, and no call here.
  virtual HttpResponse protocol_error(int status, std::string_view message,
                                      const HttpRequest& head) = 0;
  // Called when an answer is complete, for metrics; not for one that its client left, or that was
  // cut off (on_client_gone tells of those). Method and path are "" where the head was not read.
  virtual void on_response_done(std::string_view method, std::string_view path, int status,
                                int64_t duration_us) = 0;
};

}  // namespace hs
