// One POST /v1/chat/completions from its complete body to its last byte.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/admin_state.h"
#include "api/api_core.h"
#include "api/chat_response.h"
#include "engine/engine.h"
#include "http/handler.h"

namespace hs {

// Loop thread only, but for what it hands to a worker. States:
//   preparing  a worker reads the body, decodes pictures, makes the prompt
//   running    the engine has it and calls the sink
//   finished   answered, or the client is gone; the log row is written
// Until the first byte is sent, every failure is an HTTP status; after it, an error event and
// [DONE].
class ChatExchange final : public RequestSink, public std::enable_shared_from_this<ChatExchange> {
 public:
  // `core` must outlive the exchange, which keeps itself in core.exchanges while unfinished.
  // `ticket` counts for its key until the exchange is finished.
  static void begin(ApiCore& core, HttpRequest request, std::string request_id,
                    std::shared_ptr<ResponseWriter> writer, std::string key_name, KeyTicket ticket);

  ChatExchange(ApiCore& core, std::string request_id, std::shared_ptr<ResponseWriter> writer,
               KeyTicket ticket);

  // A comment on a stream that has been silent for period_us, so that proxies keep it open.
  void keep_alive(int64_t period_us);
  // Ends the request with an error of the server's making; `by` is for the log.
  void cancel(const Error& reason, std::string_view by);

  const std::string& request_id() const { return request_id_; }
  RunningRequest running() const;

  void on_prompt_cached(int32_t n_tokens) override;
  void on_text(int32_t choice, std::string_view text, std::vector<TokenLogprob> logprobs,
               int32_t n_tokens) override;
  void on_choice_finished(int32_t choice, FinishReason reason, std::string_view stop) override;
  void on_done(const RequestUsage& usage, const RequestTimings& timings,
               const Error* error) override;

 private:
  struct Job;

  void start(HttpRequest request);
  void prepared(Job& job, const Status& ran);
  void submit(PreparedChat prepared);
  void client_gone();

  void write(std::string event);
  void start_stream();
  const RequestUsage* running_usage();
  void answer_whole(const RequestUsage& usage, std::string_view timings);
  void end_stream(const RequestUsage& usage, std::string_view timings);
  void answer_error(const Error& error);
  // Writes the log row and leaves core.exchanges. `status`: 499 when the client left first.
  void finish(int status, const Error* error);

  ApiCore& core_;
  const std::string request_id_;
  std::shared_ptr<ResponseWriter> writer_;
  RequestRow row_;
  int64_t begin_us_ = 0;
  bool finished_ = false;
  bool gone_ = false;  // the client has left
  std::optional<Error> cancel_reason_;

  KeyTicket ticket_;
  std::shared_ptr<Job> job_;  // while preparing
  WorkerPool::JobId job_id_ = 0;
  std::optional<RequestId> engine_id_;

  // From the prepared request.
  std::shared_ptr<const ServedModel> model_;
  AnswerHead head_;
  StreamFields stream_;
  bool with_timings_ = false;
  bool with_logprobs_ = false;
  int32_t max_tokens_ = 0;

  // The answer so far.
  struct Choice {
    AnswerChoice answer;
    bool role_sent = false;
    bool finished = false;
    int32_t n_tokens = 0;
    int64_t last_us = 0;  // when tokens came last
  };
  std::vector<Choice> choices_;
  std::optional<ChunkWriter> chunks_;
  bool stream_started_ = false;
  int64_t written_us_ = 0;
  RequestUsage running_;  // for continuous usage
};

}  // namespace hs
