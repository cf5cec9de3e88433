// A handler whose answers are decided by the path, and which notes what it was asked.
#pragma once

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/handler.h"
#include "http/server.h"
#include "http/sse.h"

namespace hs::test {

// GET /show says what arrived; POST /echo returns the body; /stream sends two chunks, /events two
// events; /refused is refused by its head; /empty is a 204; /dropped drops its writer; /later...
// waits for the test.
class TestHandler final : public HttpHandler {
 public:
  std::optional<HttpResponse> check_head(const HttpRequest& head) override {
    events += fmt::format("head {} {}\n", head.method, head.path);
    if (head.path == "/refused") return HttpResponse{404, {}, "refused"};
    return std::nullopt;
  }

  void handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) override {
    events += fmt::format("handle {} {} {}\n", request.method, request.path, request.body.size());
    if (request.path.starts_with("/later")) return keep(request.path, std::move(writer));
    if (request.path == "/dropped") return;
    if (request.path == "/stream" || request.path == "/events")
      return stream(request.path, *writer);
    if (request.path == "/empty") return writer->send({204, {}, ""});
    if (request.path == "/echo")
      return writer->send({200, {{"content-type", "text/plain"}}, std::move(request.body)});
    writer->send({200, {{"content-type", "text/plain"}}, shown(request)});
  }

  HttpResponse protocol_error(int status, std::string_view message,
                              const HttpRequest& head) override {
    events += fmt::format("error {}\n", status);
    error_path = head.path;
    return {status, {}, std::string(message)};
  }

  void on_response_done(std::string_view method, std::string_view path, int status,
                        int64_t duration_us) override {
    events += fmt::format("done {} {} {}\n", method, path, status);
    last_duration_us = duration_us;
  }

  std::string events;
  std::string error_path;  // of the last protocol error
  int64_t last_duration_us = -1;
  std::map<std::string, std::shared_ptr<ResponseWriter>> waiting;  // by path
  std::map<std::string, int> gone;  // calls of on_client_gone, by path

 private:
  void keep(const std::string& path, std::shared_ptr<ResponseWriter> writer) {
    writer->on_client_gone([this, path] { ++gone[path]; });
    waiting[path] = std::move(writer);
  }

  static void stream(std::string_view path, ResponseWriter& writer) {
    const bool events = path == "/events";
    writer.start_stream(200,
                        {{"content-type", std::string(events ? kSseContentType : "text/plain")}});
    for (const std::string_view word : {"one", "two"})
      writer.write(events ? sse_event(word) : std::string(word));
    writer.end();
  }

  static std::string shown(const HttpRequest& request) {
    std::string text = fmt::format("{} {} ?{}\n", request.method, request.path, request.query);
    for (const HttpHeader& header : request.headers)
      text += fmt::format("{}: {}\n", header.name, header.value);
    return text;
  }
};

}  // namespace hs::test
