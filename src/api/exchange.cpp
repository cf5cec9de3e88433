#include "api/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/errors.h"
#include "api/json_writer.h"
#include "api/trace_id.h"
#include "base/log.h"
#include "http/sse.h"

namespace hs {
namespace {

constexpr int kClientGoneStatus = 499;
constexpr size_t kWarnedFieldsMax = 256;
constexpr size_t kLoggedNameBytesMax = 128;

// What the log keeps of a request beside its numbers. `generate`: of its first prompt.
std::string params_json(const GenerateRequest& generate, const PreparedRequest& prepared) {
  std::string out = fmt::format(
      "{{\"temperature\":{},\"top_p\":{},\"top_k\":{},\"min_p\":{},\"seed\":{},\"n\":{}",
      generate.temperature, generate.top_p, generate.top_k, generate.min_p, generate.seed,
      generate.n_choices);
  if (prepared.max_tokens > 0) out += fmt::format(",\"max_tokens\":{}", prepared.max_tokens);
  if (prepared.generate.size() > 1) out += fmt::format(",\"prompts\":{}", prepared.generate.size());
  if (generate.priority != 0) out += fmt::format(",\"priority\":{}", generate.priority);
  if (!prepared.labels.user.empty()) {
    out += ",\"user\":";
    append_json_string(out, prepared.labels.user);
  }
  if (!prepared.labels.metadata_json.empty())
    out += ",\"metadata\":" + prepared.labels.metadata_json;
  return out + '}';
}

void warn_unknown_fields(ApiCore& core, const std::vector<std::string>& fields) {
  core.metrics.on_unknown_fields(static_cast<int64_t>(fields.size()));
  for (const std::string& name : fields)
    if (name.size() <= 64 && core.warned_fields.size() < kWarnedFieldsMax &&
        core.warned_fields.insert(name).second)
      log_warning("request field '{}' is not known and was ignored (said once)", name);
}

// -1 without values. Moves them about.
int64_t nearest_rank(std::vector<int32_t>& values, size_t percent) {
  if (values.empty()) return -1;
  const size_t rank = (percent * values.size() + 99) / 100;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::ranges::nth_element(values, at);
  return *at;
}

size_t count_pixel_bytes(const Prompt& prompt) {
  size_t bytes = 0;
  for (const auto& image : prompt.images) bytes += image->data.size() * sizeof(image->data[0]);
  return bytes;
}

int32_t count_image_tokens(const Prompt& prompt) {
  int32_t count = 0;
  for (const ImageSpan& span : prompt.spans) count += span.count;
  return count;
}

}  // namespace

// Shared with the worker, which touches only body, streams, result, remote and, to read, the rest.
struct Exchange::Job {
  Job(std::string text, std::shared_ptr<HeldBodies> bodies)
      : body(std::move(text), std::move(bodies)) {}

  HeldBody body;
  JobShare share;
  Prepare prepare = nullptr;
  uint64_t drawn_seed = 0;
  std::shared_ptr<const ServedModel> model;
  PreparationLimits limits;
  RemotePictures remote;
  std::atomic<bool> cancelled = false;
  std::atomic<bool> streams = false;
  PreparedRequest result;
};

class Exchange::Part final : public RequestSink {
 public:
  Part(std::shared_ptr<Exchange> exchange, int32_t index, int32_t n_choices)
      : exchange_(std::move(exchange)), index_(index), first_choice_(index * n_choices) {}

  void on_prompt_cached(int32_t n_tokens) override { exchange_->on_prompt_cached(n_tokens); }
  void on_prompt_logprobs(std::vector<TokenLogprob> logprobs) override {
    exchange_->answer_->prompt_logprobs(index_, logprobs);
  }
  void on_text(int32_t choice, std::string_view text, std::vector<TokenLogprob> logprobs,
               int32_t n_tokens) override {
    exchange_->on_text(first_choice_ + choice, text, std::move(logprobs), n_tokens);
  }
  void on_choice_finished(int32_t choice, FinishReason reason, std::string_view stop) override {
    exchange_->on_choice_finished(first_choice_ + choice, reason, stop);
  }
  void on_done(const RequestUsage& usage, const RequestTimings& timings,
               const Error* error) override {
    exchange_->on_part_done(usage, timings, error);
  }

 private:
  const std::shared_ptr<Exchange> exchange_;
  const int32_t index_;
  const int32_t first_choice_;
};

void Exchange::begin(ApiCore& core, HttpRequest request, std::string request_id,
                     std::shared_ptr<ResponseWriter> writer, std::string key_name, KeyTicket ticket,
                     Prepare prepare) {
  auto exchange =
      std::make_shared<Exchange>(core, std::move(request_id), std::move(writer), std::move(ticket));
  exchange->row_.key_name = std::move(key_name);
  core.exchanges.insert(exchange);
  exchange->start(std::move(request), prepare);
}

Exchange::Exchange(ApiCore& core, std::string request_id, std::shared_ptr<ResponseWriter> writer,
                   KeyTicket ticket)
    : core_(core),
      request_id_(std::move(request_id)),
      writer_(std::move(writer)),
      ticket_(std::move(ticket)) {}

void Exchange::start(HttpRequest request, Prepare prepare) {
  begin_us_ = core_.clock.now_us();
  written_us_ = begin_us_;
  row_.id = request_id_;
  row_.ts_ms = core_.clock.unix_ms();
  row_.endpoint = request.path;
  row_.client = request.peer.substr(0, request.peer.rfind(':'));
  row_.bytes_in = static_cast<int64_t>(request.body.size());
  row_.bytes_out = 0;
  row_.trace_id = trace_id_of(request.header("traceparent"));
  if (core_.costs != nullptr) cost_mark_ = core_.costs->begin();
  model_ = core_.model;
  row_.revision = model_->spec->revision;

  const JobShare share = preparation_share(ticket_, request.body.size());
  auto job = std::make_shared<Job>(std::move(request.body), core_.bodies);
  job->share = share;
  job->prepare = prepare;
  job->drawn_seed = core_.random();
  job->model = model_;
  job->limits = core_.limits;
  writer_->on_client_gone([weak = weak_from_this()] {
    if (const auto exchange = weak.lock()) exchange->client_gone();
  });
  if (!submit_job(job)) return answer_error(queue_full());
  job_ = std::move(job);
  ++core_.n_preparing;
}

bool Exchange::submit_job(const std::shared_ptr<Job>& job) {
  const Clock& clock = core_.clock;
  auto submitted = core_.workers.submit(
      [job, &clock] {
        job->result = job->prepare({job->body, job->drawn_seed, *job->model, job->limits, clock,
                                    job->cancelled, &job->streams, &job->remote});
      },
      [self = shared_from_this(), job](const Status& ran) { self->prepared(job, ran); },
      job->share);
  if (submitted) job_id_ = *submitted;
  return submitted.has_value();
}

void Exchange::prepared(const std::shared_ptr<Job>& job, const Status& ran) {
  const bool answerable = ran && !finished_ && !gone_ && !cancel_reason_;
  if (answerable && job->result.status && job->remote.needs_fetch()) return fetch_pictures(job);
  end_preparation(job->result, ran);
}

void Exchange::fetch_pictures(const std::shared_ptr<Job>& job) {
  row_.model = job->result.labels.model.substr(0, kLoggedNameBytesMax);
  const int64_t begin_us = core_.clock.now_us();
  const Status begun = core_.fetch_pictures(
      job, job->remote, job->body, job->cancelled,
      [self = shared_from_this(), job, begin_us](Status fetched, int64_t bytes) {
        self->row_.image_fetch_us = self->core_.clock.now_us() - begin_us;
        self->row_.image_fetch_bytes = bytes;
        if (fetched && self->submit_job(job)) return;
        job->result.status = fetched ? std::unexpected(queue_full()) : std::move(fetched);
        self->end_preparation(job->result, {});
      });
  if (begun) return;
  job->result.status = begun;
  end_preparation(job->result, {});
}

void Exchange::end_preparation(PreparedRequest& result, const Status& ran) {
  job_.reset();
  --core_.n_preparing;
  row_.model = result.labels.model.substr(0, kLoggedNameBytesMax);  // a client may name anything
  row_.stream = result.stream.stream;
  row_.n_images = result.images.n_images;
  row_.image_pixels = result.images.pixels;
  if (result.images.n_images > 0) row_.image_decode_us = result.images.decode_us;
  core_.metrics.on_images(result.images.n_images, result.images.pixels,
                          static_cast<double>(result.images.decode_us) * 1e-6);
  warn_unknown_fields(core_, result.labels.unknown_fields);
  if (finished_) return;
  if (gone_) return finish(kClientGoneStatus, nullptr);
  if (cancel_reason_) return answer_error(*cancel_reason_);
  if (!ran) return answer_error(ran.error());
  if (!result.status) return answer_error(result.status.error());
  if (result.generate.front().priority < 0 && !ticket_.may_hurry())
    return answer_error({ErrorKind::kInvalidArgument,
                         "Only an admin key may go before others: priority must be at least 0.",
                         "admin_key_needed", "priority"});
  if (const Status held = hold_pixels(result); !held) return answer_error(held.error());

  stream_ = result.stream;
  with_timings_ = result.labels.timings;
  submit(std::move(result));
}

// One request alone may always hold what it needs: limits on pictures bound that.
Status Exchange::hold_pixels(const PreparedRequest& prepared) {
  size_t bytes = 0;
  for (const GenerateRequest& generate : prepared.generate)
    bytes += count_pixel_bytes(generate.prompt);
  const size_t held = core_.pixel_bytes;
  const bool has_room = held <= core_.pixel_bytes_max && bytes <= core_.pixel_bytes_max - held;
  if (bytes > 0 && held > 0 && !has_room) return std::unexpected(queue_full());
  pixel_bytes_ = bytes;
  core_.pixel_bytes += bytes;
  return {};
}

void Exchange::submit(PreparedRequest prepared) {
  const int32_t n_choices = prepared.generate.front().n_choices;
  choices_.resize(prepared.generate.size() * static_cast<size_t>(n_choices));
  row_.params_json = params_json(prepared.generate.front(), prepared);
  for (const GenerateRequest& generate : prepared.generate) {
    running_.prompt_tokens += static_cast<int32_t>(generate.prompt.token_ids.size());
    running_.image_tokens += count_image_tokens(generate.prompt);
  }
  max_tokens_ = prepared.max_tokens;
  prompt_param_ = std::move(prepared.prompt_param);
  row_.prompt_tokens = running_.prompt_tokens;
  row_.vision_tokens = running_.image_tokens;
  answer_ = prepared.make_answer({core_.new_id(), core_.clock.unix_ms() / 1000,
                                  std::move(prepared.labels.model), model_->fingerprint},
                                 model_->prompts->tokenizer());
  const auto self = shared_from_this();
  int32_t index = 0;
  for (GenerateRequest& generate : prepared.generate) {
    generate.tenant = ticket_.tenant();
    const Result<RequestId> id =
        core_.engine->submit(std::move(generate), std::make_shared<Part>(self, index++, n_choices));
    if (!id) {
      error_ = id.error();
      if (error_->code == "context_length_exceeded" && error_->param.empty())
        error_->param = prompt_param_;
      break;
    }
    engine_ids_.push_back(*id);
    ++n_parts_left_;
  }
  if (!error_) return;
  if (n_parts_left_ == 0) return answer_error(*error_);
  cancel_work();
}

void Exchange::client_gone() {
  if (finished_) return;
  gone_ = true;
  row_.cancelled_by = "client";
  cancel_work();
}

// What is done already ignores it.
void Exchange::cancel_work() {
  for (const RequestId id : engine_ids_) core_.engine->cancel(id);
  if (job_ == nullptr) return;
  job_->cancelled.store(true, std::memory_order_relaxed);
  core_.workers.cancel(job_id_);
}

RunningRequest Exchange::running() const {
  RunningRequest out;
  out.id = request_id_;
  out.model = row_.model;
  out.client = row_.client;
  out.phase = engine_ids_.empty()               ? "preparing"
              : running_.completion_tokens == 0 ? "waiting"
                                                : "answering";
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

void Exchange::cancel(const Error& reason, std::string_view by) {
  if (finished_ || cancel_reason_) return;
  cancel_reason_ = reason;
  if (row_.cancelled_by.empty()) row_.cancelled_by = by;
  cancel_work();
}

void Exchange::keep_alive(int64_t period_us) {
  if (finished_ || gone_ || core_.clock.now_us() - written_us_ < period_us) return;
  const bool preparing_stream = job_ != nullptr && job_->streams.load(std::memory_order_relaxed);
  if (!preparing_stream && !(stream_.stream && answer_ != nullptr)) return;
  // Once the engine has it, the first events of a stream are as good as a comment.
  start_stream(answer_ != nullptr);
  write(sse_comment("keep-alive"));
}

void Exchange::on_prompt_cached(int32_t n_tokens) {
  running_.cached_tokens += n_tokens;
}

void Exchange::on_text(int32_t index, std::string_view text, std::vector<TokenLogprob> logprobs,
                       int32_t n_tokens) {
  if (finished_) return;
  Choice& choice = choices_[static_cast<size_t>(index)];
  const int64_t now_us = core_.clock.now_us();
  const int32_t n_new = n_tokens - choice.n_tokens;
  if (choice.n_tokens > 0) {
    const int64_t gap_us = now_us - choice.last_us;
    core_.metrics.on_tokens(static_cast<double>(gap_us) * 1e-6, n_new);
    // Tokens that came together share their time.
    if (n_new > 0)
      gaps_us_.insert(gaps_us_.end(), static_cast<size_t>(n_new),
                      static_cast<int32_t>(std::min<int64_t>(gap_us / n_new, INT32_MAX)));
  }
  running_.completion_tokens += n_new;
  choice.n_tokens = n_tokens;
  choice.last_us = now_us;
  row_.completion_tokens = running_.completion_tokens;
  if (error_) return;
  if (stream_.stream) start_stream(true);
  write(answer_->text(index, text, logprobs, running_usage()));
}

void Exchange::on_choice_finished(int32_t index, FinishReason reason, std::string_view stop) {
  if (finished_ || error_) return;
  if (index == 0) first_reason_ = reason;
  if (stream_.stream) start_stream(true);
  write(answer_->finish(index, reason, stop, running_usage()));
  if (index == 0) row_.finish_reason = answer_->reason_word(index, reason);
}

void Exchange::on_part_done(const RequestUsage& usage, const RequestTimings& timings,
                            const Error* error) {
  usage_.prompt_tokens += usage.prompt_tokens;
  usage_.image_tokens += usage.image_tokens;
  usage_.cached_tokens += usage.cached_tokens;
  usage_.completion_tokens += usage.completion_tokens;
  timings_ = timings;  // of several prompts, those of the last
  if (error != nullptr && !error_) {
    error_ = *error;
    if (n_parts_left_ > 1) cancel_work();
  }
  if (--n_parts_left_ == 0) all_done();
}

void Exchange::log_usage(const RequestUsage& usage, const RequestTimings& timings) {
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
  if (error_)
    outcome.finished_reason = error_->kind == ErrorKind::kCancelled ? "abort" : "error";
  else if (first_reason_ == FinishReason::kLength)
    outcome.finished_reason = "length";
  core_.metrics.on_request_done(outcome);
}

void Exchange::all_done() {
  log_usage(usage_, timings_);
  if (gone_) return finish(kClientGoneStatus, nullptr);
  if (error_) return answer_error(cancel_reason_ ? *cancel_reason_ : *error_);
  const std::string extra =
      with_timings_ ? timings_json(timings_, row_.image_fetch_us, row_.image_decode_us) : "";
  if (stream_.stream)
    end_stream(extra);
  else
    answer_whole(extra);
}

void Exchange::write(const std::string& events) {
  if (events.empty()) return;
  written_us_ = core_.clock.now_us();
  row_.bytes_out += static_cast<int64_t>(events.size());
  writer_->write(events);
}

// `known`: the format of the answer is, so that it can say how it begins.
void Exchange::start_stream(bool known) {
  if (!std::exchange(stream_started_, true)) {
    writer_->start_stream(200, {{"Content-Type", std::string(kSseContentType)},
                                {"Cache-Control", "no-cache"},
                                {"X-Accel-Buffering", "no"},
                                {"X-Request-Id", request_id_}});
  }
  if (known && !std::exchange(begun_, true)) write(answer_->begin());
}

const RequestUsage* Exchange::running_usage() {
  return stream_.continuous_usage ? &running_ : nullptr;
}

void Exchange::answer_whole(std::string_view timings) {
  HttpResponse response = json_response(200, answer_->whole(usage_, timings));
  response.headers.push_back({"X-Request-Id", request_id_});
  row_.bytes_out = static_cast<int64_t>(response.body.size());
  writer_->send(std::move(response));
  finish(200, nullptr);
}

void Exchange::end_stream(std::string_view timings) {
  start_stream(true);
  write(answer_->end(usage_, timings));
  writer_->end();
  finish(200, nullptr);
}

void Exchange::answer_error(const Error& error) {
  const int status = http_status(error);
  // The client is told no details of a fault of ours, so the journal must have them.
  if (status == 500) log_error("request {}: {}", request_id_, error.message);
  if (stream_started_) {
    if (answer_ != nullptr) start_stream(true);
    write(answer_ != nullptr ? answer_->error(error) : error_and_done(error));
    writer_->end();
  } else {
    HttpResponse response = error_response(error);
    response.headers.push_back({"X-Request-Id", request_id_});
    row_.bytes_out = static_cast<int64_t>(response.body.size());
    writer_->send(std::move(response));
  }
  finish(status, &error);
}

void Exchange::finish(int status, const Error* error) {
  if (finished_) return;
  finished_ = true;
  ticket_ = {};
  core_.pixel_bytes -= std::exchange(pixel_bytes_, 0);
  row_.status = status;
  if (error != nullptr)
    row_.error_code = error->code.empty() ? (status >= 500 ? "engine_error" : "") : error->code;
  if (status == kClientGoneStatus) row_.error_code = "cancelled";
  row_.total_us = core_.clock.now_us() - begin_us_;
  row_.itl_p50_us = nearest_rank(gaps_us_, 50);
  row_.itl_p99_us = nearest_rank(gaps_us_, 99);
  if (core_.costs != nullptr) {
    const CostAccount::Share share = core_.costs->end(cost_mark_);
    row_.energy_uj = share.energy_uj;
    row_.cost_micros = share.cost_micros;
  }
  if (core_.log_row) core_.log_row(row_);
  // The last owner may be the caller's shared_ptr or nobody.
  const auto self = shared_from_this();
  core_.exchanges.erase(self);
}

}  // namespace hs
