#include "http/responder.h"

#include <utility>

#include "base/check.h"
#include "http/connection.h"

namespace hs {

Responder::~Responder() {
  if (connection_ != nullptr) std::exchange(connection_, nullptr)->abandoned();
}

void Responder::send(HttpResponse response) {
  if (gone_) return;
  HS_CHECK(stage_ == Stage::kOpen);
  stage_ = Stage::kComplete;
  gone_callback_ = nullptr;
  std::exchange(connection_, nullptr)->answer(std::move(response));
}

void Responder::start_stream(int status, std::vector<HttpHeader> headers) {
  if (gone_) return;
  HS_CHECK(stage_ == Stage::kOpen);
  stage_ = Stage::kStreaming;
  connection_->start_stream(status, std::move(headers));
}

void Responder::write(std::string_view bytes) {
  if (gone_) return;
  HS_CHECK(stage_ == Stage::kStreaming);
  connection_->stream_bytes(bytes);
}

void Responder::end() {
  if (gone_) return;
  HS_CHECK(stage_ == Stage::kStreaming);
  stage_ = Stage::kComplete;
  gone_callback_ = nullptr;
  std::exchange(connection_, nullptr)->end_stream();
}

size_t Responder::pending_bytes() const {
  return connection_ == nullptr ? 0 : connection_->queued_bytes();
}

void Responder::on_client_gone(std::function<void()> callback) {
  if (gone_) return callback();
  if (stage_ != Stage::kComplete) gone_callback_ = std::move(callback);
}

void Responder::client_gone() {
  connection_ = nullptr;
  gone_ = true;
  // The callback may drop the last reference to this writer.
  const auto callback = std::exchange(gone_callback_, nullptr);
  if (callback) callback();
}

}  // namespace hs
