#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/engine_impl.h"

namespace hs {

Error engine_error(std::string message) {
  return {ErrorKind::kInternal, std::move(message), "engine_error", {}};
}

EngineImpl::EngineImpl(const Model& model, EngineParts parts, const Clock& clock,
                       std::function<void()> wake)
    : spec_(model.spec),
      tokenizer_(model.prompts->tokenizer()),
      parts_(std::move(parts)),
      clock_(clock),
      wake_(std::move(wake)),
      tiers_(parts_.tiers),
      completions_(wake_) {
  for (int32_t i = 0; i < tiers_.n_units(); ++i) {
    EngineUnit& unit = parts_.units[static_cast<size_t>(i)];
    step_builders_.emplace_back(spec_.kv_layout.block_size, spec_.n_position_axes,
                                tiers_.unit(i).slots(),
                                unit.intake ? &unit.intake->memory() : nullptr);
    EngineStep& step = *steps_.emplace_back(std::make_unique<EngineStep>());
    for (int32_t rank = 0; rank < unit.model->n_ranks(); ++rank) {
      step.works.push_back(std::make_unique<StepWork>(*unit.model, step.step, i, rank));
    }
  }
  for (Device* device : parts_.devices) {
    EngineLane& lane = lanes_.emplace_back();
    lane.device = device;
    lane.stats.device = to_string(device->id());
    lane.lane = std::make_unique<Lane>("lane-" + lane.stats.device, completions_, clock_,
                                       [device] { device->attach_thread(); });
  }
}

// A lane that stops drops its orders; ranks on other lanes would wait for them.
EngineImpl::~EngineImpl() {
  for (const EngineUnit& unit : parts_.units) unit.model->stop_ranks();
}

namespace {

// That the text of a request with a grammar can begin.
Status check_grammar(const GenerateRequest& request) {
  if (request.grammar == nullptr) return {};
  const auto mask = request.grammar->mask(request.grammar->start());
  if (!mask) return std::unexpected(mask.error());
  const std::vector<int32_t>& ids = request.allowed_token_ids;
  const bool some =
      ids.empty() ? std::ranges::any_of((*mask)->words, [](uint32_t word) { return word != 0; })
                  : std::ranges::any_of(ids, [&](int32_t id) { return (*mask)->has(id); });
  if (some) return {};
  return fail(ErrorKind::kInvalidArgument,
              "No token that is allowed begins a text of the requested format.",
              "unsatisfiable_format");
}

}  // namespace

Status EngineImpl::check_request(const GenerateRequest& request) const {
  const Prompt& prompt = request.prompt;
  if (prompt.token_ids.empty()) return fail(ErrorKind::kInvalidArgument, "The prompt is empty.");
  if (request.n_choices < 1) return fail(ErrorKind::kInvalidArgument, "n must be at least 1.");
  if (request.max_tokens < 0) {
    return fail(ErrorKind::kInvalidArgument, "max_tokens must not be negative.");
  }
  HS_CHECK_LE(std::abs(request.priority), kPriorityMax);
  for (const std::vector<int32_t>& word : request.bad_words) HS_CHECK(!word.empty());
  if (const Status grammar = check_grammar(request); !grammar) return grammar;
  for (const int32_t id : request.allowed_token_ids) HS_CHECK(id >= 0 && id < spec_.vocab_size);
  HS_CHECK_EQ(prompt.positions.size(),
              prompt.token_ids.size() * static_cast<size_t>(spec_.n_position_axes));
  HS_CHECK_EQ(prompt.spans.size(), prompt.images.size());
  if (!prompt.spans.empty() && parts_.towers.empty()) {
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
  if (request.max_tokens > 0 || request.only_prompt) {
    NewRequest arriving{.id = id,
                        .prompt = request.prompt.token_ids,
                        .images = {},
                        .n_choices = request.n_choices,
                        .max_tokens = request.only_prompt ? 1 : request.max_tokens,
                        .priority = request.priority,
                        .tenant = request.tenant,
                        .cache_salt = request.cache_salt,
                        .reads_cache = request.n_prompt_logprobs < 0};
    for (size_t i = 0; i < request.prompt.spans.size(); ++i) {
      const ImageSpan span = request.prompt.spans[i];
      const uint64_t* hash = request.prompt.images[i]->content_hash;
      arriving.images.push_back(
          {.first = span.first,
           .key = {.content_hash = {hash[0] ^ request.cache_salt, hash[1]}, .n_rows = span.count}});
    }
    const Result<int32_t> clamped = tiers_.arrived(std::move(arriving));
    if (!clamped) return std::unexpected(clamped.error());
    max_tokens = *clamped;
  } else {
    empty_.push_back(id);
  }
  ++next_id_;
  counters_.prompt_tokens += static_cast<int64_t>(request.prompt.token_ids.size());
  active_.emplace(
      id, std::make_unique<ActiveRequest>(id, std::move(request), std::move(sink), tokenizer_,
                                          spec_, max_tokens, clock_.now_us()));
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
  if (const RequestState* state = tiers_.request(id)) {
    request->n_cached_tokens = state->cached_tokens;
    tiers_.cancel(id);
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

// Ends the requests of ids_.
void EngineImpl::fail_requests(const Error& error) {
  // The sinks may call back: walk over a copy that nobody else uses.
  const std::vector<RequestId> ids = std::exchange(ids_, {});
  for (const RequestId id : ids) end_request(id, &error);
}

void EngineImpl::poll() {
  apply_cancels();
  finish_empty_requests();
  completions_.take(completed_);
  for (std::unique_ptr<WorkOrder>& order : completed_) handle(std::move(order));
  completed_.clear();
  apply_cancels();
  dispatch();
}

// ---- state

EngineStats EngineImpl::stats() const {
  EngineStats stats = counters_;
  stats.running = tiers_.n_running_requests();
  stats.waiting = std::max(0, static_cast<int32_t>(active_.size()) - stats.running);
  stats.waiting_tenants = tiers_.n_tenants_waiting();
  for (int32_t i = 0; i < tiers_.n_units(); ++i) {
    const Scheduler& unit = tiers_.unit(i);
    stats.kv_blocks_used += unit.pool().n_held();
    stats.kv_blocks_total += unit.pool().n_blocks();
    const Scheduler::Counters& counters = unit.counters();
    stats.preemptions += counters.preemptions;
    stats.prefix_queries += counters.prefix_queries;
    stats.prefix_hits += counters.prefix_hits;
    stats.image_cache_queries += counters.image_cache_queries;
    stats.image_cache_hits += counters.image_cache_hits;
    stats.images_encoded += counters.images_encoded;
    stats.steps += counters.steps;
    stats.step_tokens += counters.step_tokens;
  }
  stats.steals = tiers_.counters().steals;
  stats.steal_returns = tiers_.counters().returns;
  stats.handoffs = tiers_.counters().handoffs;
  stats.rehomed = tiers_.counters().rehomed;
  stats.degraded = tiers_.degraded();
  stats.serving = tiers_.serving();
  for (const EngineLink& link : parts_.links) stats.transfer_retries += link.link->retries();
  for (const EngineLane& lane : lanes_) {
    stats.lanes.push_back(lane.stats);
    stats.lanes.back().busy_since_us = lane.lane->busy_since_us();
  }
  return stats;
}

std::vector<LaneTimeline> EngineImpl::timeline() const {
  std::vector<LaneTimeline> result;
  for (const EngineLane& lane : lanes_) {
    result.push_back({lane.stats.device, lane.timeline.entries()});
  }
  return result;
}

std::vector<std::string> EngineImpl::links() const {
  std::vector<std::string> result;
  for (const EngineLink& link : parts_.links) {
    const std::string& note = link.link->note();
    result.push_back(fmt::format("{} -> {}: {}{}{}", to_string(parts_.devices[link.from]->id()),
                                 to_string(parts_.devices[link.to]->id()),
                                 to_string(link.link->path()), note.empty() ? "" : ", ", note));
  }
  return result;
}

bool EngineImpl::idle() const {
  return active_.empty() && tiers_.n_requests() == 0 && !tiers_.order_out();
}

}  // namespace hs
