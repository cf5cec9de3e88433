#include "api/chat_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/errors.h"
#include "base/log.h"
#include "http/sse.h"

namespace hs {
namespace {

constexpr int kClientGoneStatus = 499;
constexpr size_t kWarnedFieldsMax = 256;
constexpr size_t kLoggedNameBytesMax = 128;

std::string params_json(const GenerateRequest& generate, bool max_tokens_given) {
  std::string out = fmt::format(
      "{{\"temperature\":{},\"top_p\":{},\"top_k\":{},\"min_p\":{},\"seed\":{},\"n\":{}",
      generate.temperature, generate.top_p, generate.top_k, generate.min_p, generate.seed,
      generate.n_choices);
  if (max_tokens_given) out += fmt::format(",\"max_tokens\":{}", generate.max_tokens);
  return out + '}';
}

void warn_unknown_fields(ApiCore& core, const std::vector<std::string>& fields) {
  core.metrics.on_unknown_fields(static_cast<int64_t>(fields.size()));
  for (const std::string& name : fields)
    if (name.size() <= 64 && core.warned_fields.size() < kWarnedFieldsMax &&
        core.warned_fields.insert(name).second)
      log_warning("request field '{}' is not known and was ignored (said once)", name);
}

int32_t count_image_tokens(const Prompt& prompt) {
  int32_t count = 0;
  for (const ImageSpan& span : prompt.spans) count += span.count;
  return count;
}

}  // namespace

// Shared with the worker, which touches only body, result and, to read, the rest.
struct ChatExchange::Job {
  Job(std::string text, std::shared_ptr<HeldBodies> bodies)
      : body(std::move(text), std::move(bodies)) {}

  HeldBody body;
  uint64_t drawn_seed = 0;
  std::shared_ptr<const ServedModel> model;
  PreparationLimits limits;
  std::atomic<bool> cancelled = false;
  PreparedChat result;
};

std::string ApiCore::new_id() {
  return fmt::format("{:016x}{:08x}", random(), static_cast<uint32_t>(random()));
}

void ChatExchange::begin(ApiCore& core, HttpRequest request, std::string request_id,
                         std::shared_ptr<ResponseWriter> writer, std::string key_name,
                         KeyTicket ticket) {
  auto exchange = std::make_shared<ChatExchange>(core, std::move(request_id), std::move(writer),
                                                 std::move(ticket));
  exchange->row_.key_name = std::move(key_name);
  core.exchanges.insert(exchange);
  exchange->start(std::move(request));
}

ChatExchange::ChatExchange(ApiCore& core, std::string request_id,
                           std::shared_ptr<ResponseWriter> writer, KeyTicket ticket)
    : core_(core),
      request_id_(std::move(request_id)),
      writer_(std::move(writer)),
      ticket_(std::move(ticket)) {}

void ChatExchange::start(HttpRequest request) {
  begin_us_ = core_.clock.now_us();
  row_.id = request_id_;
  row_.ts_ms = core_.clock.unix_ms();
  row_.endpoint = request.path;
  row_.client = request.peer.substr(0, request.peer.rfind(':'));
  row_.bytes_in = static_cast<int64_t>(request.body.size());
  row_.bytes_out = 0;
  model_ = core_.model;

  auto job = std::make_shared<Job>(std::move(request.body), core_.bodies);
  job->drawn_seed = core_.random();
  job->model = model_;
  job->limits = core_.limits;
  job_ = job;
  const auto self = shared_from_this();
  writer_->on_client_gone([weak = weak_from_this()] {
    if (const auto exchange = weak.lock()) exchange->client_gone();
  });
  const Clock& clock = core_.clock;
  auto submitted = core_.workers.submit(
      [job, &clock] {
        job->result = prepare_chat(
            {job->body, job->drawn_seed, *job->model, job->limits, clock, job->cancelled});
      },
      [self, job](const Status& ran) { self->prepared(*job, ran); });
  if (!submitted) return answer_error(queue_full());
  job_id_ = *submitted;
  ++core_.n_preparing;
}

void ChatExchange::prepared(Job& job, const Status& ran) {
  job_.reset();
  --core_.n_preparing;
  PreparedChat& result = job.result;
  row_.model = result.model.substr(0, kLoggedNameBytesMax);  // a client may name anything
  row_.stream = result.stream.stream;
  row_.n_images = result.images.n_images;
  row_.image_pixels = result.images.pixels;
  if (result.images.n_images > 0) row_.image_decode_us = result.images.decode_us;
  core_.metrics.on_images(result.images.n_images, result.images.pixels,
                          static_cast<double>(result.images.decode_us) * 1e-6);
  warn_unknown_fields(core_, result.unknown_fields);
  if (finished_) return;
  if (gone_) return finish(kClientGoneStatus, nullptr);
  if (cancel_reason_) return answer_error(*cancel_reason_);
  if (!ran) return answer_error(ran.error());
  if (!result.status) return answer_error(result.status.error());

  stream_ = result.stream;
  with_timings_ = result.timings;
  submit(std::move(result));
}

void ChatExchange::submit(PreparedChat prepared) {
  GenerateRequest& generate = prepared.generate;
  head_ = {"chatcmpl-" + core_.new_id(), core_.clock.unix_ms() / 1000, std::move(prepared.model),
           model_->fingerprint};
  chunks_.emplace(head_, stream_.include_usage);
  choices_.resize(static_cast<size_t>(generate.n_choices));
  with_logprobs_ = generate.n_logprobs >= 0;
  running_.prompt_tokens = static_cast<int32_t>(generate.prompt.token_ids.size());
  running_.image_tokens = count_image_tokens(generate.prompt);
  const bool max_tokens_given = generate.max_tokens != INT32_MAX;
  max_tokens_ = max_tokens_given ? generate.max_tokens : 0;
  row_.params_json = params_json(generate, max_tokens_given);
  row_.prompt_tokens = running_.prompt_tokens;
  row_.vision_tokens = running_.image_tokens;
  written_us_ = core_.clock.now_us();
  const Result<RequestId> id = core_.engine->submit(std::move(generate), shared_from_this());
  if (!id) {
    Error error = id.error();
    if (error.code == "context_length_exceeded" && error.param.empty()) error.param = "messages";
    return answer_error(error);
  }
  engine_id_ = *id;
}

void ChatExchange::client_gone() {
  if (finished_) return;
  gone_ = true;
  row_.cancelled_by = "client";
  if (engine_id_) return core_.engine->cancel(*engine_id_);
  if (job_ == nullptr) return;
  job_->cancelled.store(true, std::memory_order_relaxed);
  core_.workers.cancel(job_id_);
}

RunningRequest ChatExchange::running() const {
  RunningRequest out;
  out.id = request_id_;
  out.model = row_.model;
  out.client = row_.client;
  out.phase = !engine_id_ ? "preparing" : running_.completion_tokens == 0 ? "waiting" : "answering";
  out.age_us = core_.clock.now_us() - begin_us_;
  out.n_images = std::max<int64_t>(row_.n_images, 0);
  out.prompt_tokens = running_.prompt_tokens;
  out.image_tokens = running_.image_tokens;
  out.cached_tokens = running_.cached_tokens;
  out.completion_tokens = running_.completion_tokens;
  out.stream = row_.stream;
  out.key_name = row_.key_name;
  return out;
}

void ChatExchange::cancel(const Error& reason, std::string_view by) {
  if (finished_ || cancel_reason_) return;
  cancel_reason_ = reason;
  if (row_.cancelled_by.empty()) row_.cancelled_by = by;
  if (engine_id_) return core_.engine->cancel(*engine_id_);
  if (job_ == nullptr) return;
  job_->cancelled.store(true, std::memory_order_relaxed);
  core_.workers.cancel(job_id_);
}

void ChatExchange::keep_alive(int64_t period_us) {
  if (finished_ || gone_ || !stream_.stream || !engine_id_) return;
  if (core_.clock.now_us() - written_us_ < period_us) return;
  start_stream();
  write(sse_comment("keep-alive"));
}

void ChatExchange::on_prompt_cached(int32_t n_tokens) {
  running_.cached_tokens = n_tokens;
}

void ChatExchange::on_text(int32_t index, std::string_view text, std::vector<TokenLogprob> logprobs,
                           int32_t n_tokens) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  const int64_t now_us = core_.clock.now_us();
  if (choice.n_tokens > 0)
    core_.metrics.on_tokens(static_cast<double>(now_us - choice.last_us) * 1e-6,
                            n_tokens - choice.n_tokens);
  running_.completion_tokens += n_tokens - choice.n_tokens;
  choice.n_tokens = n_tokens;
  choice.last_us = now_us;
  row_.completion_tokens = running_.completion_tokens;
  if (!stream_.stream) {
    choice.answer.text += text;
    append_logprobs(choice.answer.logprobs, model_->prompts->tokenizer(), logprobs);
    return;
  }
  start_stream();
  if (!choice.role_sent) write(chunks_->role(index, running_usage()));
  choice.role_sent = true;
  std::string entries;
  append_logprobs(entries, model_->prompts->tokenizer(), logprobs);
  if (!text.empty() || !entries.empty())
    write(chunks_->text(index, text, entries, running_usage()));
}

void ChatExchange::on_choice_finished(int32_t index, FinishReason reason, std::string_view stop) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  choice.finished = true;
  choice.answer.reason = reason;
  choice.answer.stop = stop;
  if (index == 0) row_.finish_reason = finish_word(reason);
  if (!stream_.stream) return;
  start_stream();
  if (!choice.role_sent) write(chunks_->role(index, running_usage()));
  choice.role_sent = true;
  write(chunks_->finish(index, reason, stop, running_usage()));
}

void ChatExchange::on_done(const RequestUsage& usage, const RequestTimings& timings,
                           const Error* error) {
  row_.prompt_tokens = usage.prompt_tokens;
  row_.vision_tokens = usage.image_tokens;
  row_.cached_tokens = usage.cached_tokens;
  row_.completion_tokens = usage.completion_tokens;
  row_.queue_us = timings.queue_us;
  row_.encode_us = timings.encode_us;
  row_.transfer_us = timings.transfer_us;
  if (timings.transfer_us >= 0) row_.transfer_bytes = timings.transfer_bytes;
  row_.transfer_path = timings.transfer_path;
  row_.kv_transfer_us = timings.kv_transfer_us;
  if (timings.kv_transfer_us >= 0) row_.kv_transfer_bytes = timings.kv_transfer_bytes;
  row_.stolen = timings.stolen;
  row_.prefill_us = timings.prefill_us;
  row_.first_token_us = timings.first_token_us;
  row_.decode_us = timings.decode_us;
  RequestOutcome outcome{usage, timings, static_cast<int32_t>(choices_.size()), max_tokens_,
                         "stop"};
  if (error != nullptr)
    outcome.finished_reason = error->kind == ErrorKind::kCancelled ? "abort" : "error";
  else if (choices_.front().answer.reason == FinishReason::kLength)
    outcome.finished_reason = "length";
  core_.metrics.on_request_done(outcome);

  if (gone_) return finish(kClientGoneStatus, nullptr);
  if (error != nullptr) {
    return answer_error(cancel_reason_ ? *cancel_reason_ : *error);
  }
  const std::string extra = with_timings_ ? timings_json(timings, row_.image_decode_us) : "";
  if (stream_.stream)
    end_stream(usage, extra);
  else
    answer_whole(usage, extra);
}

void ChatExchange::write(std::string event) {
  written_us_ = core_.clock.now_us();
  row_.bytes_out += static_cast<int64_t>(event.size());
  writer_->write(event);
}

void ChatExchange::start_stream() {
  if (stream_started_) return;
  stream_started_ = true;
  writer_->start_stream(200, {{"Content-Type", std::string(kSseContentType)},
                              {"Cache-Control", "no-cache"},
                              {"X-Accel-Buffering", "no"},
                              {"X-Request-Id", request_id_}});
}

const RequestUsage* ChatExchange::running_usage() {
  return stream_.continuous_usage ? &running_ : nullptr;
}

void ChatExchange::answer_whole(const RequestUsage& usage, std::string_view timings) {
  std::vector<AnswerChoice> answers;
  answers.reserve(choices_.size());
  for (Choice& choice : choices_) answers.push_back(std::move(choice.answer));
  HttpResponse response =
      json_response(200, chat_completion_json(head_, answers, with_logprobs_, usage, timings));
  response.headers.push_back({"X-Request-Id", request_id_});
  row_.bytes_out = static_cast<int64_t>(response.body.size());
  writer_->send(std::move(response));
  finish(200, nullptr);
}

void ChatExchange::end_stream(const RequestUsage& usage, std::string_view timings) {
  start_stream();
  if (stream_.include_usage || !timings.empty()) write(chunks_->usage(usage, timings));
  write(sse_event("[DONE]"));
  writer_->end();
  finish(200, nullptr);
}

void ChatExchange::answer_error(const Error& error) {
  const int status = http_status(error);
  // The client is told no details of a fault of ours, so the journal must have them.
  if (status == 500) log_error("request {}: {}", request_id_, error.message);
  if (stream_started_) {
    write(sse_event(error_json(error)));
    write(sse_event("[DONE]"));
    writer_->end();
  } else {
    HttpResponse response = error_response(error);
    response.headers.push_back({"X-Request-Id", request_id_});
    row_.bytes_out = static_cast<int64_t>(response.body.size());
    writer_->send(std::move(response));
  }
  finish(status, &error);
}

void ChatExchange::finish(int status, const Error* error) {
  if (finished_) return;
  finished_ = true;
  ticket_ = {};
  row_.status = status;
  if (error != nullptr)
    row_.error_code = error->code.empty() ? (status >= 500 ? "engine_error" : "") : error->code;
  if (status == kClientGoneStatus) row_.error_code = "cancelled";
  row_.total_us = core_.clock.now_us() - begin_us_;
  if (core_.log_row) core_.log_row(row_);
  // The last owner may be the caller's shared_ptr or nobody.
  const auto self = shared_from_this();
  core_.exchanges.erase(self);
}

}  // namespace hs
