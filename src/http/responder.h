// The writer of one answer, which may outlive the connection it answers on.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "http/handler.h"

namespace hs {

class HttpConnection;

// Loop thread only. A writer dropped before its answer is complete is our own handler's fault: the
// client gets a 500, or a cut connection if the answer had begun.
class Responder final : public ResponseWriter {
 public:
  explicit Responder(HttpConnection* connection) : connection_(connection) {}
  ~Responder() override;

  void send(HttpResponse response) override;
  void start_stream(int status, std::vector<HttpHeader> headers) override;
  void write(std::string_view bytes) override;
  void end() override;
  size_t pending_bytes() const override;
  void on_client_gone(std::function<void()> callback) override;

  // From the connection: no client is left to answer.
  void client_gone();

 private:
  enum class Stage { kOpen, kStreaming, kComplete };

  HttpConnection* connection_;  // null once the answer is complete or the client gone
  Stage stage_ = Stage::kOpen;
  bool gone_ = false;
  std::function<void()> gone_callback_;
};

}  // namespace hs
