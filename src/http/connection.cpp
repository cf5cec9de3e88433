#include "http/connection.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "http/responder.h"
#include "http/response_head.h"

namespace hs {
namespace {

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kEmptyComment = ":\n\n";  // a server-sent event's comment line

}  // namespace

HttpConnection::HttpConnection(HttpConnectionHost& host, std::unique_ptr<TcpStream> stream)
    : host_(host),
      stream_(std::move(stream)),
      parser_(host.limits),
      deadline_timer_(host.loop, [this] { on_deadline_timer(); }),
      tick_timer_(host.loop, [this] { on_tick(); }) {
  stream_->set_events(this);
  if (host.limits.socket_send_bytes > 0)
    stream_->set_send_buffer_bytes(host.limits.socket_send_bytes);
}

HttpConnection::~HttpConnection() {
  uncount_body();
  if (responder_ != nullptr) std::exchange(responder_, nullptr)->client_gone();
}

void HttpConnection::start() {
  peer_ = stream_->peer_address();
  wait_for_request(host_.limits.head_timeout_ms);
  stream_->start_reading();
}

// ---- receiving

void HttpConnection::on_read(std::string_view bytes) {
  if (state_ == State::kLingering) {
    lingered_bytes_ += bytes.size();
    if (lingered_bytes_ > host_.limits.linger_bytes_max) return close();
    const int64_t left_ms = (linger_end_us_ - host_.loop.now_us()) / 1000;
    return set_deadline(std::clamp<int64_t>(left_ms, 0, host_.limits.linger_idle_timeout_ms));
  }
  process(bytes);
}

void HttpConnection::on_eof() {
  eof_ = true;
  switch (state_) {
    case State::kWaiting:
      if (input_.empty()) linger();
      return;
    case State::kReading:
      return close();  // half a request is no request
    case State::kLingering:
      if (queued_bytes() == 0) close();
      return;
    case State::kAnswering:
      if (!started_ && !can_probe()) return close();
      probe();
      return ensure_ticking();
    case State::kClosed:
      return;
  }
}

void HttpConnection::on_broken(std::string_view) {
  close();
}

void HttpConnection::on_drained() {
  if (state_ == State::kLingering && eof_) return close();
  process({});
}

bool HttpConnection::can_parse() const {
  // A client that sends requests and reads no answers must not make them pile up here.
  return (state_ == State::kWaiting || state_ == State::kReading) &&
         queued_bytes() <= host_.limits.write_bytes_max;
}

void HttpConnection::process(std::string_view fresh) {
  if (processing_ || state_ == State::kClosed || state_ == State::kLingering) return;
  processing_ = true;
  std::string held;
  std::string_view bytes = fresh;
  if (!input_.empty()) {
    held = std::exchange(input_, {});
    held += fresh;
    bytes = held;
  }
  while (!bytes.empty() && can_parse()) bytes.remove_prefix(parse_some(bytes));
  processing_ = false;
  if (state_ == State::kClosed || state_ == State::kLingering) return;
  input_ = bytes;
  if (eof_) {
    if (state_ == State::kWaiting && input_.empty()) linger();
    if (state_ == State::kReading) close();
    return;
  }
  if (input_.size() >= host_.limits.read_ahead_bytes_max)
    stream_->stop_reading();
  else
    stream_->start_reading();
}

size_t HttpConnection::parse_some(std::string_view bytes) {
  if (state_ == State::kWaiting) {
    state_ = State::kReading;
    begun_us_ = host_.loop.now_us();
    set_deadline(host_.limits.head_timeout_ms);
  }
  const size_t taken = parser_.feed(bytes);
  if (parser_.state() == HttpParser::State::kHeadDone) on_head();
  if (state_ != State::kReading) return taken;
  count_body();
  if (state_ != State::kReading) return taken;
  if (parser_.state() == HttpParser::State::kDone) {
    on_request();
  } else if (parser_.state() == HttpParser::State::kFailed) {
    refuse(parser_.failure_status(), parser_.failure_message());
  }
  return taken;
}

void HttpConnection::count_body() {
  const size_t now = parser_.body_bytes();
  host_.body_bytes += now - counted_body_bytes_;
  counted_body_bytes_ = now;
  if (host_.body_bytes > host_.limits.all_bodies_bytes_max)
    refuse(503, "The server is receiving too much at once; please try again.");
}

void HttpConnection::uncount_body() {
  host_.body_bytes -= std::exchange(counted_body_bytes_, 0);
}

void HttpConnection::on_head() {
  parser_.request().peer = peer_;
  if (std::optional<HttpResponse> refusal = host_.handler.check_head(parser_.request())) {
    begin_answer();
    // The body is not read, so the next request cannot be found behind it.
    if (parser_.has_body()) keep_alive_ = false;
    return answer(std::move(*refusal));
  }
  if (parser_.has_body() && parser_.expects_continue()) send_bytes(std::string(kContinue));
  parser_.read_body();
  window_begin_bytes_ = 0;
  set_deadline(host_.limits.body_window_ms);
}

void HttpConnection::on_request() {
  begin_answer();
  const auto responder = std::make_shared<Responder>(this);
  responder_ = responder.get();
  host_.handler.handle(std::move(parser_.request()), responder);
}

// ---- answering

void HttpConnection::begin_answer() {
  state_ = State::kAnswering;
  deadline_us_ = 0;
  uncount_body();
  method_ = parser_.request().method;
  path_ = parser_.request().path;
  keep_alive_ = parser_.keep_alive();
  http10_ = parser_.is_http10();
  head_only_ = parser_.request().head_only;
  started_ = chunked_ = event_stream_ = between_events_ = false;
}

bool HttpConnection::may_keep_alive() const {
  return keep_alive_ && !host_.draining && !(eof_ && input_.empty() && !processing_);
}

void HttpConnection::refuse(int status, std::string_view message) {
  if (begun_us_ == 0) begun_us_ = host_.loop.now_us();
  begin_answer();
  keep_alive_ = false;
  answer(host_.handler.protocol_error(status, message, parser_.request()));
}

void HttpConnection::answer(HttpResponse response) {
  responder_ = nullptr;
  keep_alive_ = may_keep_alive();
  status_ = response.status;
  const bool has_body = status_has_body(response.status);
  std::string bytes = format_head({.status = response.status,
                                   .framing = has_body ? BodyFraming::kLength : BodyFraming::kNone,
                                   .body_bytes = response.body.size(),
                                   .keep_alive = keep_alive_,
                                   .http10 = http10_,
                                   .date = host_.date(),
                                   .headers = response.headers});
  if (has_body && !head_only_) bytes += response.body;
  send_bytes(std::move(bytes));
  answer_complete();
}

void HttpConnection::start_stream(int status, std::vector<HttpHeader> headers) {
  started_ = true;
  status_ = status;
  chunked_ = !http10_;
  if (http10_) keep_alive_ = false;
  keep_alive_ = may_keep_alive();
  event_stream_ = between_events_ = std::ranges::any_of(headers, [](const HttpHeader& header) {
    return header.value.starts_with("text/event-stream");
  });
  send_bytes(format_head({.status = status,
                          .framing = chunked_ ? BodyFraming::kChunked : BodyFraming::kUntilClose,
                          .keep_alive = keep_alive_,
                          .http10 = http10_,
                          .date = host_.date(),
                          .headers = headers}));
}

void HttpConnection::stream_bytes(std::string_view bytes) {
  if (head_only_ || bytes.empty()) return;
  between_events_ = bytes.ends_with("\n\n");
  send_bytes(chunked_ ? format_chunk(bytes) : std::string(bytes));
  if (queued_bytes() <= host_.limits.write_bytes_hard_max || doomed_) return;
  // Not here and now: the producer that called is not ready to hear that its client is gone.
  doomed_ = true;
  tick_timer_.start(0);
}

void HttpConnection::end_stream() {
  responder_ = nullptr;
  if (chunked_ && !head_only_) send_bytes(std::string(kLastChunk));
  answer_complete();
}

void HttpConnection::abandoned() {
  responder_ = nullptr;
  log_error("{} {}: the handler dropped its writer without an answer", method_, path_);
  if (started_) return abort();
  keep_alive_ = false;
  answer(host_.handler.protocol_error(500, "The server failed to answer.", {}));
}

void HttpConnection::answer_complete() {
  host_.handler.on_response_done(method_, path_, status_, host_.loop.now_us() - begun_us_);
  begun_us_ = 0;
  if (!keep_alive_ || host_.draining) return linger();
  parser_.next();
  wait_for_request(host_.limits.idle_timeout_ms);
  process({});
}

void HttpConnection::wait_for_request(int64_t timeout_ms) {
  state_ = State::kWaiting;
  set_deadline(timeout_ms);
}

// ---- ending

void HttpConnection::drain() {
  if (state_ == State::kWaiting && input_.empty()) linger();
}

void HttpConnection::abort() {
  if (state_ == State::kClosed) return;
  if (state_ == State::kAnswering) stream_->reset_on_close();
  close();
}

// A client that is still sending would see a reset instead of the answer. One that was answered
// completely, or waits idly, sends nothing, so that a drain need not wait for it to notice.
bool HttpConnection::nothing_half_read() const {
  if (!input_.empty()) return false;
  if (state_ == State::kWaiting) return true;
  return parser_.state() == HttpParser::State::kDone ||
         (parser_.state() == HttpParser::State::kHeadDone && !parser_.has_body());
}

void HttpConnection::linger() {
  close_when_taken_ = nothing_half_read();
  state_ = State::kLingering;
  input_ = {};
  if (eof_ && queued_bytes() == 0) return close();
  stream_->shutdown();
  linger_end_us_ = host_.loop.now_us() + host_.limits.linger_timeout_ms * 1000;
  set_deadline(host_.limits.linger_idle_timeout_ms);
  if (!eof_) stream_->start_reading();
  if (!close_when_taken_) return;
  ticked_us_ = host_.loop.now_us();
  tick_timer_.start(1, tick_period_ms());
}

void HttpConnection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  deadline_timer_.stop();
  tick_timer_.stop();
  uncount_body();
  stream_.reset();
  if (responder_ != nullptr) std::exchange(responder_, nullptr)->client_gone();
  host_.closed(this);
}

// ---- sending and watching

size_t HttpConnection::queued_bytes() const {
  return stream_ ? stream_->queued_bytes() : 0;
}

void HttpConnection::send_bytes(std::string bytes) {
  if (!stream_ || doomed_) return;
  if (queued_bytes() == 0) still_us_ = 0;
  given_bytes_ += bytes.size();
  stream_->write(std::move(bytes));
  if (queued_bytes() > 0) ensure_ticking();
}

// The timer is left running when a deadline moves further away, which is the usual case; it then
// finds out for itself.
void HttpConnection::set_deadline(int64_t ms) {
  const int64_t now_us = host_.loop.now_us();
  overdue_ = false;
  const bool sooner = deadline_us_ == 0 || now_us + ms * 1000 < deadline_us_;
  deadline_us_ = now_us + ms * 1000;
  if (!deadline_timer_.active() || sooner) deadline_timer_.start(ms);
}

void HttpConnection::on_deadline_timer() {
  if (deadline_us_ == 0) return;
  const int64_t left_us = deadline_us_ - host_.loop.now_us();
  if (left_us > 0) return deadline_timer_.start((left_us + 999) / 1000);
  // Timers run before sockets are read: bytes that wait there since before the deadline still
  // count.
  if (!std::exchange(overdue_, true)) return deadline_timer_.start(1);
  deadline_us_ = 0;
  on_deadline();
}

void HttpConnection::on_deadline() {
  switch (state_) {
    case State::kWaiting:
      // An answer that is still being sent is the stall rule's business.
      if (queued_bytes() > 0) return set_deadline(host_.limits.idle_timeout_ms);
      return linger();
    case State::kReading:
      if (parser_.state() != HttpParser::State::kBody)
        return refuse(408, "The request's head took too long.");
      if (parser_.body_bytes() - window_begin_bytes_ < host_.limits.body_window_bytes_min)
        return refuse(408, "The request's body took too long.");
      window_begin_bytes_ = parser_.body_bytes();
      return set_deadline(host_.limits.body_window_ms);
    case State::kLingering:
      if (queued_bytes() > 0) return set_deadline(host_.limits.linger_idle_timeout_ms);
      return close();
    case State::kAnswering:
    case State::kClosed:
      return;
  }
}

int64_t HttpConnection::tick_period_ms() const {
  return std::clamp<int64_t>(
      std::min(host_.limits.stall_timeout_ms, host_.limits.probe_period_ms) / 5, 1, 100);
}

void HttpConnection::ensure_ticking() {
  if (tick_timer_.active()) return;
  ticked_us_ = host_.loop.now_us();
  tick_timer_.start(tick_period_ms(), tick_period_ms());
}

void HttpConnection::on_tick() {
  const int64_t now_us = host_.loop.now_us();
  const int64_t step_us = std::min(now_us - ticked_us_, 2000 * tick_period_ms());
  ticked_us_ = now_us;
  if (doomed_ || is_stalled(step_us)) {
    log(LogLevel::kDebug, "{}: dropped: reads too slowly", peer_);
    stream_->reset_on_close();
    return close();
  }
  const bool closing = state_ == State::kLingering && close_when_taken_;
  if (closing && stream_->unacknowledged_bytes() == 0) return close();
  const bool probing = state_ == State::kAnswering && eof_;
  if (probing && !stream_->is_alive()) return close();
  if (probing && now_us - probed_us_ >= host_.limits.probe_period_ms * 1000) probe();
  if (!probing && !closing && queued_bytes() == 0) tick_timer_.stop();
}

bool HttpConnection::is_stalled(int64_t step_us) {
  const size_t queued = queued_bytes();
  const size_t taken = given_bytes_ - stream_->unacknowledged_bytes();
  const bool moved = std::exchange(taken_bytes_, taken) != taken || queued == 0;
  still_us_ = moved ? 0 : still_us_ + step_us;
  const bool over_cap = state_ == State::kAnswering && queued > host_.limits.write_bytes_max;
  over_cap_us_ = over_cap ? over_cap_us_ + step_us : 0;
  return std::max(still_us_, over_cap_us_) > host_.limits.stall_timeout_ms * 1000;
}

bool HttpConnection::can_probe() const {
  return started_ ? event_stream_ && between_events_ && !head_only_ : !http10_;
}

void HttpConnection::probe() {
  probed_us_ = host_.loop.now_us();
  if (!can_probe() || queued_bytes() > 0) return;
  if (!started_) return send_bytes(std::string(kContinue));
  send_bytes(chunked_ ? format_chunk(kEmptyComment) : std::string(kEmptyComment));
}

}  // namespace hs
