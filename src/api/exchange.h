// One request that the engine answers (chat, completions, responses) from its complete body to its
// last byte.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/admin_state.h"
#include "api/answer_format.h"
#include "api/api_core.h"
#include "engine/engine.h"
#include "http/handler.h"

namespace hs {

// Loop thread only, but for what it hands to a worker. States:
//   preparing  a worker reads the body, decodes pictures, makes the prompts; twice where the body
//              names pictures by URL, which are fetched meanwhile
//   running    the engine has them and calls a sink for each
//   finished   answered, or the client is gone; the log row is written
// Until the first byte is sent, every failure is an HTTP status; after it, the last events of the
// stream. When one prompt of several fails, the others are cancelled.
class Exchange final : public std::enable_shared_from_this<Exchange> {
 public:
  using Prepare = PreparedRequest (*)(const PreparationInput&);  // on a worker

  // `core` must outlive the exchange, which keeps itself in core.exchanges while unfinished.
  // `ticket` counts for its key until the exchange is finished.
  static void begin(ApiCore& core, HttpRequest request, std::string request_id,
                    std::shared_ptr<ResponseWriter> writer, std::string key_name, KeyTicket ticket,
                    Prepare prepare);

  Exchange(ApiCore& core, std::string request_id, std::shared_ptr<ResponseWriter> writer,
           KeyTicket ticket);

  // A comment on a stream that has been silent for period_us, so that proxies keep it open; also
  // while it waits for a worker, a place in the batch, or its pictures.
  void keep_alive(int64_t period_us);
  // Ends the request with an error of the server's making; `by` is for the log.
  void cancel(const Error& reason, std::string_view by);

  const std::string& request_id() const { return request_id_; }
  RunningRequest running() const;

 private:
  struct Job;
  class Part;  // the sink of one prompt

  void start(HttpRequest request, Prepare prepare);
  bool submit_job(const std::shared_ptr<Job>& job);  // false: no worker takes it
  void prepared(const std::shared_ptr<Job>& job, const Status& ran);
  void fetch_pictures(const std::shared_ptr<Job>& job);
  void end_preparation(PreparedRequest& result, const Status& ran);
  Status hold_pixels(const PreparedRequest& prepared);
  void submit(PreparedRequest prepared);
  void client_gone();
  void cancel_work();

  // From the parts; `choice` is counted over all of them.
  void on_prompt_cached(int32_t n_tokens);
  void on_text(int32_t choice, std::string_view text, std::vector<TokenLogprob> logprobs,
               int32_t n_tokens);
  void on_choice_finished(int32_t choice, FinishReason reason, std::string_view stop);
  void on_part_done(const RequestUsage& usage, const RequestTimings& timings, const Error* error);
  void all_done();
  void log_usage(const RequestUsage& usage, const RequestTimings& timings);

  void write(const std::string& events);
  void start_stream(bool known);
  const RequestUsage* running_usage();
  void answer_whole(std::string_view timings);
  void end_stream(std::string_view timings);
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
  std::vector<RequestId> engine_ids_;
  size_t n_parts_left_ = 0;
  size_t pixel_bytes_ = 0;  // in core_.pixel_bytes

  // From the prepared request.
  std::shared_ptr<const ServedModel> model_;
  StreamFields stream_;
  bool with_timings_ = false;
  int32_t max_tokens_ = 0;  // as asked; 0 = not
  std::string prompt_param_;
  std::unique_ptr<AnswerFormat> answer_;

  // The answer so far.
  struct Choice {
    int32_t n_tokens = 0;
    int64_t last_us = 0;  // when tokens came last
  };
  std::vector<Choice> choices_;
  FinishReason first_reason_ = FinishReason::kStop;  // of choice 0
  bool stream_started_ = false;
  bool begun_ = false;  // answer_->begin() has been sent
  int64_t written_us_ = 0;
  RequestUsage running_;  // for continuous usage
  RequestUsage usage_;    // of the parts that are done
  RequestTimings timings_;
  std::optional<Error> error_;    // of the first part that failed
  std::vector<int32_t> gaps_us_;  // between tokens of a choice
  CostAccount::Mark cost_mark_;
};

}  // namespace hs
