// The engine's loop-thread side: requests and lanes on one hand, the scheduler's decisions on the
// other.
#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/active_request.h"
#include "engine/embedding_transfer.h"
#include "engine/lane.h"
#include "engine/scheduler.h"
#include "engine/step_builder.h"
#include "engine/work_orders.h"

namespace hs {
namespace {

constexpr int32_t kTransferBuffers = 2;  // one is filled while the other is emptied

Error engine_error(std::string message) {
  return {ErrorKind::kInternal, std::move(message), "engine_error", {}};
}

// Everything that is allocated before the engine runs.
struct EngineParts {
  EngineConfig config;  // resolved
  SchedulerConfig scheduling;
  std::unique_ptr<EmbeddingTransfer> embeddings;  // null without a vision tower
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(Model& model, bool one_lane, EngineParts parts, const Clock& clock,
             std::function<void()> wake);

  Result<RequestId> submit(GenerateRequest request, std::shared_ptr<RequestSink> sink) override;
  void cancel(RequestId id) override;
  void poll() override;
  EngineStats stats() const override;
  bool idle() const override;
  const EngineConfig& config() const override { return parts_.config; }

 private:
  Status check_request(const GenerateRequest& request) const;
  void finish_empty_requests();
  void apply_cancels();
  void handle(std::unique_ptr<WorkOrder> order);
  void handle_encode(EncodeWork& work);
  void handle_transfer(TransferWork& work);
  void handle_step(StepWork& work);
  void handle_token(RequestId id, int32_t choice, const SampledToken& token);
  void fail_requests(const Error& error);
  void end_request(RequestId id, const Error* error);
  void dispatch();
  void dispatch_encode();
  void dispatch_transfer();
  void dispatch_step();
  bool order_out() const;
  ActiveRequest* find(RequestId id);

  const ModelSpec& spec_;
  const Tokenizer& tokenizer_;
  EngineParts parts_;
  const Clock& clock_;
  std::function<void()> wake_;
  Scheduler scheduler_;
  StepBuilder step_builder_;

  RequestId next_id_ = 1;
  std::unordered_map<RequestId, std::unique_ptr<ActiveRequest>> active_;
  std::vector<RequestId> cancels_;  // noted, not yet applied
  std::vector<RequestId> empty_;    // requests that want no token
  EngineStats counters_;            // those that only the engine knows

  struct SampledItem {
    RequestId request = 0;
    int32_t choice = 0;
  };
  // Work areas, kept to avoid allocation.
  std::vector<std::unique_ptr<WorkOrder>> completed_;
  std::vector<SampledItem> sampled_items_;
  std::vector<int32_t> sampled_tokens_;
  std::vector<RequestId> ids_;
  EncodeOrder encode_order_;
  TransferOrder transfer_order_;
  std::unique_ptr<StepWork> spare_step_;  // null while the lane has it

  // Last, so that the lanes stop before anything they use goes.
  CompletionQueue completions_;
  std::unique_ptr<Lane> language_lane_;
  std::unique_ptr<Lane> own_vision_lane_;
  Lane* vision_lane_;
};

EngineImpl::EngineImpl(Model& model, bool one_lane, EngineParts parts, const Clock& clock,
                       std::function<void()> wake)
    : spec_(model.spec),
      tokenizer_(model.prompts->tokenizer()),
      parts_(std::move(parts)),
      clock_(clock),
      wake_(std::move(wake)),
      scheduler_(parts_.scheduling),
      step_builder_(spec_.kv_layout.block_size, spec_.n_position_axes, scheduler_.slots(),
                    parts_.embeddings.get()),
      completions_(wake_) {
  spare_step_ = std::make_unique<StepWork>(*model.languages.front());
  language_lane_ = std::make_unique<Lane>("language-lane", completions_, clock_);
  if (!one_lane) own_vision_lane_ = std::make_unique<Lane>("vision-lane", completions_, clock_);
  vision_lane_ = one_lane ? language_lane_.get() : own_vision_lane_.get();
}

// ---- requests

Status EngineImpl::check_request(const GenerateRequest& request) const {
  const Prompt& prompt = request.prompt;
  if (prompt.token_ids.empty()) return fail(ErrorKind::kInvalidArgument, "The prompt is empty.");
  if (request.n_choices < 1) return fail(ErrorKind::kInvalidArgument, "n must be at least 1.");
  if (request.max_tokens < 0) {
    return fail(ErrorKind::kInvalidArgument, "max_tokens must not be negative.");
  }
  HS_CHECK_EQ(prompt.positions.size(),
              prompt.token_ids.size() * static_cast<size_t>(spec_.n_position_axes));
  HS_CHECK_EQ(prompt.spans.size(), prompt.images.size());
  if (!prompt.spans.empty() && parts_.embeddings == nullptr) {
    return fail(ErrorKind::kUnsupported, "This model takes no pictures.");
  }
  int32_t end = 0;
  for (const ImageSpan& span : prompt.spans) {
    HS_CHECK_GE(span.first, end);
    HS_CHECK_GT(span.count, 0);
    end = span.first + span.count;
    HS_CHECK_LE(static_cast<size_t>(end), prompt.token_ids.size());
  }
  size_t span = 0;
  for (size_t i = 0; i < prompt.token_ids.size(); ++i) {
    while (span < prompt.spans.size() &&
           i >= static_cast<size_t>(prompt.spans[span].first + prompt.spans[span].count)) {
      ++span;
    }
    if (span < prompt.spans.size() && i >= static_cast<size_t>(prompt.spans[span].first)) continue;
    const int32_t id = prompt.token_ids[i];
    if (id < 0 || id >= spec_.vocab_size) {
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("Token id {} at place {} of the prompt is not in the vocabulary of "
                              "{} tokens.",
                              id, i, spec_.vocab_size));
    }
  }
  return {};
}

Result<RequestId> EngineImpl::submit(GenerateRequest request, std::shared_ptr<RequestSink> sink) {
  if (Status status = check_request(request); !status) return std::unexpected(status.error());
  const RequestId id = next_id_;
  int32_t max_tokens = 0;
  if (request.max_tokens > 0) {
    NewRequest arriving{.id = id,
                        .prompt = request.prompt.token_ids,
                        .images = {},
                        .n_choices = request.n_choices,
                        .max_tokens = request.max_tokens};
    for (size_t i = 0; i < request.prompt.spans.size(); ++i) {
      const ImageSpan span = request.prompt.spans[i];
      const uint64_t* hash = request.prompt.images[i]->content_hash;
      arriving.images.push_back(
          {.first = span.first, .key = {.content_hash = {hash[0], hash[1]}, .n_rows = span.count}});
    }
    const Result<int32_t> clamped = scheduler_.arrived(std::move(arriving));
    if (!clamped) return std::unexpected(clamped.error());
    max_tokens = *clamped;
  } else {
    empty_.push_back(id);
  }
  ++next_id_;
  counters_.prompt_tokens += static_cast<int64_t>(request.prompt.token_ids.size());
  active_.emplace(
      id, std::make_unique<ActiveRequest>(id, std::move(request), std::move(sink), tokenizer_,
                                          spec_.eos_ids, max_tokens, clock_.now_us()));
  wake_();
  return id;
}

void EngineImpl::cancel(RequestId id) {
  cancels_.push_back(id);
  wake_();
}

ActiveRequest* EngineImpl::find(RequestId id) {
  const auto it = active_.find(id);
  return it == active_.end() ? nullptr : it->second.get();
}

// The request is gone before its sink hears of it, so nothing that the sink does can end it twice.
void EngineImpl::end_request(RequestId id, const Error* error) {
  const auto it = active_.find(id);
  if (it == active_.end()) return;
  const std::unique_ptr<ActiveRequest> request = std::move(it->second);
  active_.erase(it);
  if (const RequestState* state = scheduler_.request(id)) {
    request->n_cached_tokens = state->cached_tokens;
    scheduler_.cancel(id);
  }
  request->sink->on_done(request->usage(), request->final_timings(clock_.now_us()), error);
}

void EngineImpl::apply_cancels() {
  const Error error{ErrorKind::kCancelled, "The request was cancelled.", "cancelled", {}};
  // A sink may cancel others from on_done.
  while (!cancels_.empty()) {
    const RequestId id = cancels_.back();
    cancels_.pop_back();
    end_request(id, &error);
  }
}

void EngineImpl::finish_empty_requests() {
  while (!empty_.empty()) {
    const RequestId id = empty_.back();
    empty_.pop_back();
    ActiveRequest* request = find(id);
    if (request == nullptr) continue;
    const std::shared_ptr<RequestSink> sink = request->sink;
    for (int32_t choice = 0; choice < request->n_unfinished; ++choice) {
      sink->on_text(choice, {}, {}, 0);
      sink->on_choice_finished(choice, FinishReason::kLength, {});
    }
    end_request(id, nullptr);
  }
}

// ---- completions

void EngineImpl::poll() {
  apply_cancels();
  finish_empty_requests();
  completions_.take(completed_);
  for (std::unique_ptr<WorkOrder>& order : completed_) handle(std::move(order));
  completed_.clear();
  apply_cancels();
  dispatch();
}

void EngineImpl::handle(std::unique_ptr<WorkOrder> order) {
  switch (order->kind()) {
    case WorkOrder::Kind::kEncode:
      handle_encode(static_cast<EncodeWork&>(*order));
      break;
    case WorkOrder::Kind::kTransfer:
      handle_transfer(static_cast<TransferWork&>(*order));
      break;
    case WorkOrder::Kind::kStep:
      handle_step(static_cast<StepWork&>(*order));
      spare_step_.reset(static_cast<StepWork*>(order.release()));
      break;
  }
}

// Ends the requests of ids_.
void EngineImpl::fail_requests(const Error& error) {
  // The sinks may call back: walk over a copy that nobody else uses.
  const std::vector<RequestId> ids = std::exchange(ids_, {});
  for (const RequestId id : ids) end_request(id, &error);
}

void EngineImpl::handle_encode(EncodeWork& work) {
  const int64_t encode_us = work.finished_us - work.started_us;
  RequestId last = 0;
  for (const EncodeOrder::Item& item : work.order.items) {
    ActiveRequest* request = item.request != last ? find(item.request) : nullptr;
    last = item.request;
    if (request == nullptr) continue;
    request->timings.encode_us = std::max<int64_t>(request->timings.encode_us, 0) + encode_us;
  }
  Error error = engine_error("The embeddings of a picture are not finite numbers.");
  if (!work.status) {
    std::ranges::fill(work.outcomes, ImageOutcome::kFailed);
    ++counters_.encode_failures;
    error = engine_error("Encoding a picture failed: " + work.status.error().message);
    log_error("encode order {} failed: {}", work.order.id, work.status.error().message);
  } else {
    const auto n_bad = std::ranges::count(work.outcomes, ImageOutcome::kFailed);
    counters_.non_finite_images += n_bad;
    if (n_bad > 0) log_error("{} picture(s) gave embeddings that are not finite", n_bad);
  }
  ids_.clear();
  scheduler_.encode_done(work.outcomes, ids_);
  fail_requests(error);
}

void EngineImpl::handle_transfer(TransferWork& work) {
  const int64_t transfer_us = work.finished_us - work.started_us;
  const auto n_items = static_cast<int64_t>(work.order.items.size());
  ids_.clear();
  for (const TransferOrder::Item& item : work.order.items) {
    if (!work.status) break;
    for (auto& [id, request] : active_) {
      const RequestState* state = scheduler_.request(id);
      if (state == nullptr) continue;
      const bool waits = std::ranges::any_of(
          state->images, [&](const PromptImage& image) { return image.slot == item.slot; });
      if (!waits) continue;
      request->timings.transfer_us =
          std::max<int64_t>(request->timings.transfer_us, 0) + transfer_us / n_items;
      request->timings.transfer_bytes +=
          item.n_rows * spec_.dim * static_cast<int64_t>(parts_.embeddings->value_bytes());
    }
  }
  if (!work.status) {
    ++counters_.encode_failures;
    log_error("transfer of encode order {} failed: {}", work.order.id, work.status.error().message);
  }
  scheduler_.transfer_done(work.status.has_value(), ids_);
  if (!work.status) {
    fail_requests(engine_error("Moving image embeddings failed: " + work.status.error().message));
  }
}

void EngineImpl::handle_step(StepWork& work) {
  if (!work.status) {
    ++counters_.step_failures;
    log_error("step {} failed: {}", work.order.id, work.status.error().message);
    ids_.clear();
    for (const StepOrder::Item& item : work.order.items) {
      ids_.push_back(item.sequence->request->id);
    }
    scheduler_.step_failed();
    fail_requests(engine_error("The language model failed: " + work.status.error().message));
    return;
  }
  // The order's sequences may be gone after step_done().
  sampled_items_.clear();
  sampled_tokens_.clear();
  for (const StepOrder::Item& item : work.order.items) {
    if (!item.sample) continue;
    const SampledToken& token = work.sampled[sampled_items_.size()];
    sampled_items_.push_back({item.sequence->request->id, item.sequence->choice});
    sampled_tokens_.push_back(token.non_finite ? -1 : token.id);
  }
  scheduler_.step_done(sampled_tokens_);
  for (size_t i = 0; i < sampled_items_.size(); ++i) {
    handle_token(sampled_items_[i].request, sampled_items_[i].choice, work.sampled[i]);
  }
}

void EngineImpl::handle_token(RequestId id, int32_t choice, const SampledToken& token) {
  ActiveRequest* request = find(id);
  if (request == nullptr) return;  // cancelled in the meantime
  if (token.non_finite) {
    ++counters_.non_finite_requests;
    log_error("request {} has logits that are not finite", id);
    const Error error = engine_error("The logits of the model are not finite numbers.");
    end_request(id, &error);
    return;
  }
  const std::shared_ptr<RequestSink> sink = request->sink;
  if (request->timings.first_token_us < 0) {
    request->n_cached_tokens = scheduler_.request(id)->cached_tokens;
    if (request->n_cached_tokens > 0) sink->on_prompt_cached(request->n_cached_tokens);
  }
  request->token_came(clock_.now_us());
  ++counters_.generation_tokens;
  ChoiceOutput& output = request->choices[static_cast<size_t>(choice)];
  ChoiceOutput::Delta delta = output.push(token);
  if (!delta.empty()) {
    sink->on_text(choice, delta.text, std::move(delta.logprobs), output.n_tokens());
  }
  if (!delta.finish) return;
  request->n_cached_tokens = scheduler_.request(id)->cached_tokens;
  scheduler_.finish(id, choice);
  --request->n_unfinished;
  sink->on_choice_finished(choice, *delta.finish, delta.stop);
  if (request->complete()) end_request(id, nullptr);
}

// ---- orders

bool EngineImpl::order_out() const {
  return scheduler_.step_in_flight() || scheduler_.encode_in_flight() ||
         scheduler_.transfer_in_flight();
}

void EngineImpl::dispatch() {
  // Pictures first. A second round, since letting a request in can show that it needs a picture.
  for (int round = 0; round < 2; ++round) {
    dispatch_encode();
    dispatch_transfer();
    dispatch_step();
    if (order_out() || scheduler_.n_requests() == 0) return;
  }
  // The scheduler's rules say that this cannot be. Were it so all the same, no client should wait
  // for ever.
  log_error("{} requests cannot go on: ending them", scheduler_.n_requests());
  ids_.clear();
  for (const auto& [id, request] : active_) ids_.push_back(id);
  fail_requests(engine_error("The engine cannot go on with this request."));
}

void EngineImpl::dispatch_encode() {
  if (!scheduler_.next_encode(encode_order_)) return;
  const int64_t now_us = clock_.now_us();
  auto work = std::make_unique<EncodeWork>(*parts_.embeddings);
  work->order = encode_order_;
  for (const EncodeOrder::Item& item : encode_order_.items) {
    ActiveRequest& request = *active_.at(item.request);
    request.work_started(now_us);
    work->images.push_back(request.images[static_cast<size_t>(item.image)]);
  }
  vision_lane_->post(std::move(work));
}

void EngineImpl::dispatch_transfer() {
  if (!scheduler_.next_transfer(transfer_order_)) return;
  auto work = std::make_unique<TransferWork>(*parts_.embeddings);
  work->order = transfer_order_;
  language_lane_->post(std::move(work));
}

void EngineImpl::dispatch_step() {
  if (spare_step_ == nullptr || !scheduler_.next_step(spare_step_->order)) return;
  const int64_t now_us = clock_.now_us();
  for (const StepOrder::Item& item : spare_step_->order.items) {
    active_.at(item.sequence->request->id)->prefill_started(now_us);
  }
  step_builder_.build(
      spare_step_->order,
      [this](RequestId id) -> const StepInputs& { return active_.at(id)->inputs; },
      spare_step_->step);
  spare_step_->sampled.resize(spare_step_->step.sample_rows.size());
  language_lane_->post(std::move(spare_step_));
}

// ---- state

EngineStats EngineImpl::stats() const {
  EngineStats stats = counters_;
  stats.running = scheduler_.n_running_requests();
  stats.waiting = std::max(0, static_cast<int32_t>(active_.size()) - stats.running);
  stats.kv_blocks_used = scheduler_.pool().n_held();
  stats.kv_blocks_total = scheduler_.pool().n_blocks();
  const Scheduler::Counters& counters = scheduler_.counters();
  stats.preemptions = counters.preemptions;
  stats.prefix_queries = counters.prefix_queries;
  stats.prefix_hits = counters.prefix_hits;
  stats.image_cache_queries = counters.image_cache_queries;
  stats.image_cache_hits = counters.image_cache_hits;
  stats.images_encoded = counters.images_encoded;
  stats.steps = counters.steps;
  stats.step_tokens = counters.step_tokens;
  return stats;
}

bool EngineImpl::idle() const {
  return active_.empty() && scheduler_.n_requests() == 0 && !order_out();
}

// ---- start

Status check_positive(std::string_view name, int64_t value) {
  if (value > 0) return {};
  return fail(ErrorKind::kInvalidArgument, fmt::format("{} must be positive, not {}", name, value),
              {}, std::string(name));
}

Result<EngineConfig> resolve_config(EngineConfig config, const ModelSpec& spec) {
  const std::pair<std::string_view, int64_t> positives[] = {
      {"max_num_seqs", config.max_num_seqs},
      {"max_num_batched_tokens", config.max_num_batched_tokens},
      {"kv_blocks", config.kv_blocks},
      {"max_queue", config.max_queue},
      {"max_encode_images", config.max_encode_images},
      {"embedding_cache_rows", config.embedding_cache_rows}};
  for (const auto& [name, value] : positives) {
    if (Status status = check_positive(name, value); !status) {
      return std::unexpected(status.error());
    }
  }
  if (config.max_model_len < 0 || config.max_model_len > spec.max_model_len) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("max_model_len {} is not in 1 .. {} that the model has",
                            config.max_model_len, spec.max_model_len),
                {}, "max_model_len");
  }
  if (config.max_model_len == 0) config.max_model_len = spec.max_model_len;
  return config;
}

SchedulerConfig scheduler_config(const EngineConfig& config, const ModelSpec& spec, bool vision,
                                 bool one_device) {
  SchedulerConfig result{.block_size = spec.kv_layout.block_size,
                         .n_blocks = config.kv_blocks,
                         .max_model_len = config.max_model_len,
                         .max_num_seqs = config.max_num_seqs,
                         .max_num_batched_tokens = config.max_num_batched_tokens,
                         .max_queue = config.max_queue,
                         .max_encode_images = config.max_encode_images,
                         .prefix_cache = config.prefix_cache};
  if (!vision) return result;
  result.embedding_rows = config.embedding_cache_rows;
  // On one device the tower writes into the slots; else its output area is as large as a prompt can
  // ask for. Its work area bounds both.
  result.max_encode_rows = result.embedding_rows;
  if (spec.max_encode_rows > 0) {
    result.max_encode_rows = std::min(result.max_encode_rows, spec.max_encode_rows);
  }
  if (!one_device) {
    result.max_encode_rows = std::min<int64_t>(result.max_encode_rows, config.max_model_len);
  }
  result.n_transfer_buffers = one_device ? 0 : kTransferBuffers;
  return result;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(Model& model, Device& vision_device,
                                               Device& language_device, const EngineConfig& config,
                                               const Clock& clock, std::function<void()> wake) {
  const Result<EngineConfig> resolved = resolve_config(config, model.spec);
  if (!resolved) return std::unexpected(resolved.error());
  EngineParts parts;
  parts.config = *resolved;
  const bool vision = !model.towers.empty();
  const bool one_device = &vision_device == &language_device;
  parts.scheduling = scheduler_config(*resolved, model.spec, vision, one_device);

  if (Status status = model.languages.front()->allocate_kv(resolved->kv_blocks); !status) {
    return std::unexpected(status.error());
  }
  if (vision) {
    const EmbeddingTransfer::Options options{.dim = model.spec.dim,
                                             .n_rows = parts.scheduling.embedding_rows,
                                             .max_encode_rows = parts.scheduling.max_encode_rows,
                                             .n_buffers = kTransferBuffers};
    auto embeddings =
        EmbeddingTransfer::create(*model.towers.front(), vision_device, language_device, options);
    if (!embeddings) return std::unexpected(embeddings.error());
    parts.embeddings = std::move(*embeddings);
  }
  return std::make_unique<EngineImpl>(model, one_device || !vision, std::move(parts), clock,
                                      std::move(wake));
}

}  // namespace hs
