// What lanes hand back: results for the scheduler, text and times for the requests.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "device/communicator.h"
#include "engine/engine_impl.h"

namespace hs {
namespace {

// How devices say that nothing can be expected of them any more.
bool says_lost(const Status& status) {
  return !status && status.error().code == "device_lost";
}

}  // namespace

void EngineImpl::handle(std::unique_ptr<WorkOrder> order) {
  switch (order->kind()) {
    case WorkOrder::Kind::kEncode:
      handle_encode(static_cast<EncodeWork&>(*order));
      break;
    case WorkOrder::Kind::kTransfer:
      handle_transfer(static_cast<TransferWork&>(*order));
      break;
    case WorkOrder::Kind::kKv:
      handle_kv(static_cast<KvWork&>(*order));
      break;
    case WorkOrder::Kind::kStep:
      handle_rank(std::unique_ptr<StepWork>(static_cast<StepWork*>(order.release())));
      break;
  }
}

void EngineImpl::record(size_t lane, const WorkOrder& work, TimelineEntry entry) {
  entry.kind = work.kind();
  entry.started_us = work.started_us;
  entry.finished_us = work.finished_us;
  entry.failed = !work.status.has_value();
  lanes_[lane].timeline.add(entry);
  LaneStats& stats = lanes_[lane].stats;
  const int64_t duration_us = work.finished_us - work.started_us;
  switch (entry.kind) {
    case WorkOrder::Kind::kEncode:
      stats.encode_us += duration_us;
      break;
    case WorkOrder::Kind::kTransfer:
    case WorkOrder::Kind::kKv:
      stats.transfer_us += duration_us;
      break;
    case WorkOrder::Kind::kStep:
      stats.step_us += duration_us;
      if (entry.stolen) stats.stolen_us += duration_us;
      break;
  }
}

// ---- lost devices

// Gives up everything on the device, the first time that an order fails because it is lost.
void EngineImpl::check_lost(size_t lane, const Status& status) {
  if (says_lost(status) && !lanes_[lane].stats.lost) lose_device(lane, status);
}

void EngineImpl::lose_device(size_t lane, const Status& status) {
  lanes_[lane].stats.lost = true;
  log_error("device {} is lost: {}", lanes_[lane].stats.device, status.error().message);
  const std::vector<RequestId> others = std::exchange(ids_, {});
  tiers_.device_lost(static_cast<int32_t>(lane), ids_);
  fail_requests({ErrorKind::kUnavailable,
                 fmt::format("The device {} was lost.", lanes_[lane].stats.device),
                 "device_lost",
                 {}});
  ids_ = others;
}

// ---- vision

void EngineImpl::handle_encode(EncodeWork& work) {
  const size_t lane = parts_.towers[static_cast<size_t>(work.order.tower)].lane;
  const int64_t encode_us = work.finished_us - work.started_us;
  record(lane, work,
         {.unit = work.order.unit,
          .request = work.order.items.front().request,
          .n_requests = static_cast<int32_t>(work.order.items.size()),
          .n_rows = static_cast<int32_t>(work.order.n_rows)});
  RequestId last = 0;
  for (const EncodeOrder::Item& item : work.order.items) {
    ActiveRequest* request = item.request != last ? find(item.request) : nullptr;
    last = item.request;
    if (request == nullptr) continue;
    request->timings.encode_us = std::max<int64_t>(request->timings.encode_us, 0) + encode_us;
  }
  ids_.clear();
  if (!work.status) {
    ++counters_.encode_failures;
    log_error("encode order {} failed: {}", work.order.id, work.status.error().message);
    check_lost(lane, work.status);
    tiers_.encode_failed(work.order, ids_);
    return fail_requests(engine_error("Encoding a picture failed: " + work.status.error().message));
  }
  tiers_.encode_done(work.order, work.outcomes, encode_us, ids_);
  fail_not_finite(work.outcomes);
}

// Ends the requests of ids_, which wait for pictures that a device computed and that cannot be
// used.
void EngineImpl::fail_not_finite(std::span<const ImageOutcome> outcomes) {
  const auto n_bad = std::ranges::count(outcomes, ImageOutcome::kFailed);
  counters_.non_finite_images += n_bad;
  if (n_bad > 0) log_error("{} picture(s) gave embeddings that are not finite", n_bad);
  fail_requests(engine_error("The embeddings of a picture are not finite numbers."));
}

void EngineImpl::handle_transfer(TransferWork& work) {
  const size_t lane = parts_.units[static_cast<size_t>(work.order.unit)].lane;
  const int64_t transfer_us = work.finished_us - work.started_us;
  const auto n_items = static_cast<int64_t>(work.order.items.size());
  int64_t n_rows = 0;
  for (const TransferOrder::Item& item : work.order.items) {
    n_rows += item.n_rows;
    if (!work.status) continue;
    for (auto& [id, request] : active_) {
      if (tiers_.unit_of(id) != work.order.unit) continue;
      const RequestState* state = tiers_.request(id);
      const bool waits =
          state != nullptr && std::ranges::any_of(state->images, [&](const PromptImage& image) {
            return image.slot == item.slot;
          });
      if (!waits) continue;
      RequestTimings& timings = request->timings;
      timings.transfer_us = std::max<int64_t>(timings.transfer_us, 0) + transfer_us / n_items;
      timings.transfer_bytes +=
          item.n_rows * spec_.tower_dim() *
          static_cast<int64_t>(dtype_bytes(lanes_[lane].device->activation_dtype()));
      timings.transfer_path = to_string(work.copy.path);
    }
  }
  record(lane, work,
         {.unit = work.order.unit,
          .n_requests = static_cast<int32_t>(n_items),
          .n_rows = static_cast<int32_t>(n_rows),
          .bytes = static_cast<int64_t>(work.copy.bytes)});
  ids_.clear();
  if (work.status) {
    ++counters_.transfers;
    counters_.transfer_bytes += static_cast<int64_t>(work.copy.bytes);
  } else {
    ++counters_.encode_failures;
    log_error("transfer of encode order {} failed: {}", work.order.id, work.status.error().message);
    const size_t source = parts_.towers[static_cast<size_t>(work.order.tower)].lane;
    check_lost(work.is_source_lost ? source : lane, work.status);
    work.outcomes.assign(work.order.items.size(), ImageOutcome::kFailed);
  }
  tiers_.transfer_done(work.order, work.outcomes, ids_);
  if (!work.status) {
    return fail_requests(
        engine_error("Moving image embeddings failed: " + work.status.error().message));
  }
  fail_not_finite(work.outcomes);
}

// ---- language

void EngineImpl::handle_kv(KvWork& work) {
  const size_t lane = parts_.units[static_cast<size_t>(work.order.to)].lane;
  size_t lost_lane = lane;
  const auto bytes = static_cast<int64_t>(work.copy.bytes);
  int32_t n_rows = 0;
  for (const KvMove& move : work.order.moves) n_rows += move.n_rows;
  record(lane, work,
         {.unit = work.order.to,
          .request = work.order.request,
          .n_requests = 1,
          .n_rows = n_rows,
          .bytes = bytes});
  if (ActiveRequest* request = find(work.order.request)) {
    request->timings.kv_transfer_us = work.finished_us - work.started_us;
    request->timings.kv_transfer_bytes = bytes;
    if (work.status) request->timings.transfer_path = to_string(work.copy.path);
  }
  ids_.clear();
  if (work.status) {
    ++counters_.kv_transfers;
    counters_.kv_transfer_bytes += bytes;
  } else {
    ++counters_.step_failures;
    log_error("handing over request {} failed: {}", work.order.request,
              work.status.error().message);
    lost_lane =
        work.is_source_lost ? parts_.units[static_cast<size_t>(work.order.from)].lane : lane;
    check_lost(lost_lane, work.status);
  }
  tiers_.kv_done(work.order.id, work.status.has_value(), ids_);
  // A copy may end well on a device that was lost in the meantime.
  fail_requests(work.status || says_lost(work.status)
                    ? Error{ErrorKind::kUnavailable,
                            fmt::format("The device {} was lost.", lanes_[lost_lane].stats.device),
                            "device_lost",
                            {}}
                    : engine_error("Handing the request over to another device failed: " +
                                   work.status.error().message));
}

// `work`: of the rank that failed, not of one that only had to follow.
void EngineImpl::handle_failed_step(const StepOrder& order, const StepWork& work) {
  ++counters_.step_failures;
  log_error("step {} failed: {}", order.id, work.status.error().message);
  std::vector<RequestId> in_step;
  for (const StepOrder::Item& item : order.items) {
    in_step.push_back(item.sequence->request->id);
  }
  tiers_.step_failed(work.unit);
  ids_ = std::move(in_step);
  const std::string what = "The language model failed: " + work.status.error().message;
  fail_requests(says_lost(work.status) ? Error{ErrorKind::kUnavailable, what, "device_lost", {}}
                                       : engine_error(what));
  // Several may have been lost in the same step.
  const EngineUnit& unit = parts_.units[static_cast<size_t>(work.unit)];
  for (const auto& one : steps_[static_cast<size_t>(work.unit)]->works)
    check_lost(unit.rank_lanes[static_cast<size_t>(one->rank)], one->status);
}

void EngineImpl::handle_rank(std::unique_ptr<StepWork> work) {
  const EngineUnit& unit = parts_.units[static_cast<size_t>(work->unit)];
  EngineStep& step = *steps_[static_cast<size_t>(work->unit)];
  const StepOrder& order = step.step.order;
  record(unit.rank_lanes[static_cast<size_t>(work->rank)], *work,
         {.unit = work->unit,
          .request = order.items.front().sequence->request->id,
          .n_requests = static_cast<int32_t>(order.items.size()),
          .n_rows = order.n_tokens,
          .n_sampled = static_cast<int32_t>(step.step.step.sample_rows.size()),
          .bytes = work->bytes,
          .stolen = unit.role == UnitRole::kThief});
  counters_.all_reduce_bytes += work->bytes;
  const int32_t unit_index = work->unit;
  step.works.push_back(std::move(work));
  if (step.works.size() == unit.rank_lanes.size()) handle_step(unit_index);
}

// All ranks are done.
void EngineImpl::handle_step(int32_t unit_index) {
  const EngineStep& step = *steps_[static_cast<size_t>(unit_index)];
  const StepWork* failed = nullptr;
  int64_t started_us = 0;  // by the last rank, whose lane may have had pictures to encode before
  int64_t finished_us = 0;
  for (const auto& work : step.works) {
    started_us = std::max(started_us, work->started_us);
    finished_us = std::max(finished_us, work->finished_us);
    if (work->status) continue;
    const bool is_cause = failed == nullptr || is_group_abort(failed->status);
    if (is_cause || says_lost(work->status)) failed = work.get();
  }
  if (failed != nullptr) return handle_failed_step(step.step.order, *failed);
  // The order's sequences may be gone after step_done().
  sampled_items_.clear();
  sampled_tokens_.clear();
  size_t row = 0;
  for (const StepOrder::Item& item : step.step.order.items) {
    row += take_scored(item, std::span(step.step.sampled).subspan(row));
    if (!item.sample) continue;
    const SampledToken& token = step.step.sampled[row];
    sampled_items_.push_back({item.sequence->request->id, item.sequence->choice, row++});
    sampled_tokens_.push_back(token.non_finite ? -1 : token.id);
  }
  tiers_.step_done(unit_index, sampled_tokens_, finished_us - started_us);
  for (const SampledItem& item : sampled_items_) {
    handle_token(item.request, item.choice, step.step.sampled[item.row]);
  }
}

// Keeps the log-probabilities of the item's prompt tokens; how many there are.
size_t EngineImpl::take_scored(const StepOrder::Item& item, std::span<const SampledToken> rows) {
  ActiveRequest* request = find(item.sequence->request->id);
  // A request that was cancelled meanwhile is told nothing.
  const auto n = static_cast<size_t>(item.n_scored);
  for (size_t i = 0; request != nullptr && i < n; ++i) {
    request->scored(item.first + static_cast<int32_t>(i) + 1, rows[i]);
  }
  return n;
}

namespace {

void append(ChoiceOutput::Delta& delta, ChoiceOutput::Delta more) {
  delta.text += more.text;
  std::ranges::move(more.logprobs, std::back_inserter(delta.logprobs));
  delta.finish = more.finish;
  delta.stop = std::move(more.stop);
}

}  // namespace

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
    request->n_cached_tokens = tiers_.request(id)->cached_tokens;
    if (request->n_cached_tokens > 0) sink->on_prompt_cached(request->n_cached_tokens);
    if (request->inputs.n_prompt_logprobs >= 0) {
      sink->on_prompt_logprobs(std::move(request->prompt_logprobs));
      request->inputs.n_prompt_logprobs = -1;
    }
  }
  request->token_came(clock_.now_us());
  ChoiceOutput& output = request->choices[static_cast<size_t>(choice)];
  ChoiceOutput::Delta delta;
  if (request->only_prompt) {
    delta.finish = FinishReason::kLength;
  } else {
    ++counters_.generation_tokens;
    delta = output.push(token);
    if (!delta.finish && request->grammar) {
      if (const Status goes_on = request->grammar->push(choice, token.id); !goes_on)
        return end_request(id, &goes_on.error());
      if (request->grammar->must_end(choice)) append(delta, output.end());
    }
  }
  if (!delta.empty()) {
    sink->on_text(choice, delta.text, std::move(delta.logprobs), output.n_tokens());
  }
  if (!delta.finish) return;
  request->n_cached_tokens = tiers_.request(id)->cached_tokens;
  request->timings.stolen = tiers_.was_stolen(id);
  tiers_.finish(id, choice);
  --request->n_unfinished;
  sink->on_choice_finished(choice, *delta.finish, delta.stop);
  if (request->complete()) end_request(id, nullptr);
}

}  // namespace hs
