// One client's connection: requests in, answers out in the same order, until one side has had
// enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/handler.h"
#include "http/limits.h"
#include "http/parser.h"
#include "loop/loop.h"
#include "loop/tcp.h"
#include "loop/timer.h"

namespace hs {

class HttpConnection;
class Responder;

// What a connection needs from its server.
struct HttpConnectionHost {
  Loop& loop;
  HttpHandler& handler;
  const HttpLimits limits;
  bool draining = false;  // no connection serves another request after its present one
  size_t body_bytes = 0;  // bodies being received, of all connections

  HttpConnectionHost(Loop& on_loop, HttpHandler& with_handler, const HttpLimits& with_limits)
      : loop(on_loop), handler(with_handler), limits(with_limits) {}
  virtual ~HttpConnectionHost() = default;
  virtual std::string_view date() = 0;
  // The connection has closed its socket and waits to be destroyed, at the earliest after the call
  // that made it close.
  virtual void closed(HttpConnection* connection) = 0;
};

// Loop thread only. States:
//   kWaiting    for the first byte of a request
//   kReading    a head or a body is under way
//   kAnswering  the handler has the request; what the client sends meanwhile waits, within a limit
//   kLingering  the last answer is being sent and no more will be; what still comes is discarded.
//               Ends when the client ends its side; where no request is half read, as soon as the
//               client's machine has acknowledged everything; or after the limits' times.
//   kClosed     waits for destruction
//
// The client that leaves. A reset ends the connection at once. A client that ends only its sending
// side (FIN) may still read, or may be gone: TCP tells the two apart only when something is sent,
// because a closed socket then answers with a reset. So while an answer is pending after FIN, the
// connection sends what means nothing every limits.probe_period_ms: "100 Continue" before the
// answer's head, an SSE comment between two events of an event stream. Other streams are probed by
// their own data. An HTTP/1.0 client may get no interim response, so its FIN before the answer's
// head counts as leaving.
class HttpConnection final : public TcpEvents {
 public:
  HttpConnection(HttpConnectionHost& host, std::unique_ptr<TcpStream> stream);
  ~HttpConnection() override;

  void start();
  // Answers with an error of the protocol, then closes.
  void refuse(int status, std::string_view message);
  // Closes now if nothing is under way, otherwise after the present answer.
  void drain();
  // Ends now, whatever is under way; the client of an unfinished answer sees a reset.
  void abort();

  // From the responder.
  void answer(HttpResponse response);
  void start_stream(int status, std::vector<HttpHeader> headers);
  void stream_bytes(std::string_view bytes);
  void end_stream();
  void abandoned();
  size_t queued_bytes() const;

 private:
  enum class State : uint8_t { kWaiting, kReading, kAnswering, kLingering, kClosed };

  void on_read(std::string_view bytes) override;
  void on_eof() override;
  void on_broken(std::string_view reason) override;
  void on_drained() override;

  void process(std::string_view fresh);
  bool can_parse() const;
  size_t parse_some(std::string_view bytes);
  void count_body();
  void uncount_body();
  void on_head();
  void on_request();
  void begin_answer();
  void answer_complete();
  void wait_for_request(int64_t timeout_ms);
  void linger();
  void close();
  bool may_keep_alive() const;
  bool nothing_half_read() const;

  void send_bytes(std::string bytes);
  void set_deadline(int64_t ms);
  int64_t tick_period_ms() const;
  void on_deadline_timer();
  void on_deadline();
  void ensure_ticking();
  void on_tick();
  bool is_stalled(int64_t step_us);
  bool can_probe() const;
  void probe();

  HttpConnectionHost& host_;
  std::unique_ptr<TcpStream> stream_;  // null in kClosed
  HttpParser parser_;
  State state_ = State::kWaiting;
  bool processing_ = false;  // process() is on the stack
  bool eof_ = false;         // the client's side has ended
  std::string input_;        // received, not parsed yet
  std::string peer_;

  // The request being read or answered.
  int64_t begun_us_ = 0;
  size_t counted_body_bytes_ = 0;  // in host_.body_bytes
  size_t window_begin_bytes_ = 0;  // body size when the present rate window began
  Responder* responder_ = nullptr;
  std::string method_, path_;
  int status_ = 0;
  bool keep_alive_ = false;
  bool http10_ = false;
  bool head_only_ = false;
  bool started_ = false;  // the answer's head is out
  bool chunked_ = false;
  bool event_stream_ = false;
  bool between_events_ = false;

  // Sending and watching.
  size_t given_bytes_ = 0;  // to the stream, ever
  size_t taken_bytes_ = 0;  // acknowledged by the client, when last looked at
  // Times are added up tick by tick, so that a process that itself stood still blames no client.
  int64_t ticked_us_ = 0;
  int64_t still_us_ = 0;     // without progress
  int64_t over_cap_us_ = 0;  // with more queued than the cap
  bool doomed_ = false;      // to be closed at the next tick
  int64_t probed_us_ = 0;

  bool close_when_taken_ = false;  // in kLingering: nothing of the client's is on its way
  size_t lingered_bytes_ = 0;
  int64_t linger_end_us_ = 0;

  int64_t deadline_us_ = 0;  // 0: none
  bool overdue_ = false;     // passed, but what had arrived before may not be read yet
  Timer deadline_timer_;     // may be armed for an earlier, outdated deadline
  Timer tick_timer_;
};

}  // namespace hs
