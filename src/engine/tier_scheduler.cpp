// Requests and events; tier_orders.cpp has the orders, tier_moves.cpp what makes a request change
// its unit.
#include "engine/tier_scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace hs {

TierScheduler::TierScheduler(const TierConfig& config) : config_(config) {
  for (const TierConfig::Tower& tower : config.towers) {
    towers_.push_back({.device = tower.device});
    for (int32_t buffer = tower.n_buffers; buffer-- > 0;) {
      towers_.back().free_buffers.push_back(buffer);
    }
  }
  for (const TierConfig::Unit& unit : config.units) {
    SchedulerConfig scheduling = unit.scheduling;
    scheduling.decodes = unit.role != UnitRole::kPrefill;
    units_.push_back({.device = unit.device,
                      .role = unit.role,
                      .towers = unit.towers,
                      .other_devices = unit.other_devices,
                      .scheduler = std::make_unique<Scheduler>(scheduling)});
    for (const int32_t tower : unit.towers) HS_CHECK_LT(at(tower), towers_.size());
  }
  HS_CHECK(!units_.empty());
}

// ---- arrival

bool TierScheduler::has_role(UnitRole role) const {
  return std::ranges::any_of(units_, [&](const Unit& u) { return !u.lost && u.role == role; });
}

// Others than serving and prefill units step in when all of those are lost.
bool TierScheduler::takes_arrivals(const Unit& unit) const {
  if (unit.lost) return false;
  if (unit.role == UnitRole::kServe || unit.role == UnitRole::kPrefill) return true;
  return !has_role(UnitRole::kServe) && !has_role(UnitRole::kPrefill);
}

std::optional<int32_t> TierScheduler::least_loaded(FunctionRef<bool(const Unit&)> suits) const {
  const auto n_suitable = std::ranges::count_if(units_, [&](const Unit& u) { return suits(u); });
  std::optional<int32_t> best;
  int64_t least = 0;
  for (int32_t i = 0; i < n_units(); ++i) {
    const Unit& unit = units_[at(i)];
    if (!suits(unit)) continue;
    if (n_suitable == 1) return i;  // whatever there is to do
    const int64_t tokens = work_left(unit).tokens;
    if (best && tokens >= least) continue;
    best = i;
    least = tokens;
  }
  return best;
}

TierScheduler::WorkLeft TierScheduler::work_left(const RequestState& request) const {
  WorkLeft left;
  const auto expected = std::min<int64_t>(request.max_tokens, expected_outputs());
  for (const Sequence& sequence : request.choices) {
    if (sequence.state == SequenceState::kFinished) continue;
    const int64_t outputs = std::max<int64_t>(expected - std::ssize(sequence.outputs), 1);
    left.tokens += outputs;
    left.steps = std::max(left.steps, outputs);
    if (sequence.state != SequenceState::kUnstarted) {
      left.tokens += std::max(request.n_prompt() - sequence.n_computed, 0);
    }
  }
  return left;
}

const TierScheduler::WorkLeft& TierScheduler::work_left(const Unit& unit) const {
  if (unit.work_left) return *unit.work_left;
  WorkLeft left;
  for (const RequestState* request : unit.scheduler->by_arrival()) {
    const WorkLeft one = work_left(*request);
    left.tokens += one.tokens;
    left.steps = std::max(left.steps, one.steps);
  }
  return unit.work_left.emplace(left);
}

bool TierScheduler::has_tower(const Unit& unit) const {
  return std::ranges::any_of(unit.towers, [&](int32_t t) { return !towers_[at(t)].lost; });
}

// It must fit where it is handed over to as well, and its choices, which go together, side by side
// on both units.
Status TierScheduler::clamp_to_handover(const Unit& prefill, NewRequest& request) const {
  const int64_t n_prompt = std::ssize(request.prompt);
  for (const Unit& other : units_) {
    const bool decodes = other.role == UnitRole::kDecode && !other.lost;
    if (!decodes && &other != &prefill) continue;
    if (Status there = other.scheduler->check_fits(n_prompt, {}); !there) return there;
    const int64_t block_size = other.scheduler->config().block_size;
    const int64_t n_blocks = (n_prompt - 1) / block_size + 2 * int64_t{request.n_choices};
    if (n_blocks > other.scheduler->config().n_blocks) {
      return fail(ErrorKind::kTooLarge,
                  fmt::format("{} choices of a prompt of {} tokens are more than the KV cache of "
                              "this server holds.",
                              request.n_choices, n_prompt),
                  "context_length_exceeded");
    }
    const int64_t room = other.scheduler->context_limit() - n_prompt;
    request.max_tokens = static_cast<int32_t>(std::min<int64_t>(request.max_tokens, room));
  }
  return {};
}

Result<int32_t> TierScheduler::arrived(NewRequest request) {
  const auto takes = [&](const Unit& unit) { return takes_arrivals(unit); };
  const std::optional<int32_t> index = least_loaded(takes);
  if (!index) {
    return fail(ErrorKind::kUnavailable, "No device is left that could run the model.",
                "device_lost");
  }
  Unit& unit = units_[at(*index)];
  if (!request.images.empty() && !has_tower(unit)) {
    return fail(ErrorKind::kUnavailable,
                "The device that encodes pictures is lost: only text can be answered.",
                "device_lost");
  }
  // What can never fit is told so, however long the queue is.
  if (Status fits = unit.scheduler->check_fits(std::ssize(request.prompt), request.images); !fits) {
    return std::unexpected(fits.error());
  }
  if (Status room = check_queue(request.tenant); !room) return std::unexpected(room.error());
  if (unit.role == UnitRole::kPrefill) {
    if (Status status = clamp_to_handover(unit, request); !status) {
      return std::unexpected(status.error());
    }
  }
  const RequestId id = request.id;
  request.arrival = take_turn(request);
  Result<int32_t> max_tokens = changing(*index).arrived(std::move(request));
  HS_CHECK(max_tokens.has_value());  // it fits
  residences_.emplace(id, Residence{.unit = *index});
  return max_tokens;
}

// ---- turns

namespace {

// Of a token that is generated, in tokens of a prompt.
constexpr uint64_t kOutputCost = 2;

uint64_t spent_on(const RequestState& request) {
  if (!request.started) return 0;
  uint64_t spent = static_cast<uint64_t>(request.n_prompt() - request.cached_tokens);
  for (const Sequence& sequence : request.choices) spent += kOutputCost * sequence.outputs.size();
  return spent;
}

}  // namespace

// The queue is longer than configured by one request a tenant at most.
Status TierScheduler::check_queue(uint64_t tenant) const {
  int32_t n_queued = 0;
  for (const Unit& unit : units_) n_queued += unit.scheduler->n_unstarted();
  if (n_queued < config_.max_queue) return {};
  const bool has_none = std::ranges::all_of(
      turns_, [&](const auto& entry) { return entry.second.n_waiting(tenant) == 0; });
  if (has_none) return {};
  return fail(ErrorKind::kResourceExhausted,
              fmt::format("The server is busy: {} requests are waiting.", n_queued), "queue_full");
}

// Among all requests, as RequestState::arrival.
uint64_t TierScheduler::take_turn(const NewRequest& request) {
  const auto priority = static_cast<uint64_t>(request.priority + kPriorityMax);
  const auto n_outputs =
      static_cast<uint64_t>(std::min<int64_t>(request.max_tokens, expected_outputs()));
  const uint64_t cost =
      request.prompt.size() + kOutputCost * n_outputs * static_cast<uint64_t>(request.n_choices);
  const uint64_t turn = turns_[priority].arrive(request.tenant, cost);
  HS_CHECK_LT(turn, uint64_t{1} << kArrivalBits);
  return priority << kArrivalBits | turn;
}

void TierScheduler::end_turn(const RequestState& request) {
  const auto turns = turns_.find(priority_class(request.arrival));
  turns->second.end(turn_of(request.arrival), spent_on(request));
  if (turns->second.empty()) turns_.erase(turns);
}

int32_t TierScheduler::n_tenants_waiting() const {
  int32_t n = 0;
  for (const auto& [priority, turns] : turns_) n += turns.n_tenants_waiting();
  return n;
}

// ---- the ends of orders

void TierScheduler::encode_done(const EncodeOrder& order, std::span<const ImageOutcome> outcomes,
                                int64_t duration_us, std::vector<RequestId>& failed) {
  Tower& tower = towers_[at(order.tower)];
  tower.busy = false;
  const bool transfers = units_[at(order.unit)].scheduler->encode_done(order.id, outcomes, failed);
  if (!transfers && order.buffer >= 0) tower.free_buffers.push_back(order.buffer);
  pause_stolen(tower.device, duration_us);
}

void TierScheduler::encode_failed(const EncodeOrder& order, std::vector<RequestId>& failed) {
  Tower& tower = towers_[at(order.tower)];
  Unit& unit = units_[at(order.unit)];
  tower.busy = false;
  if (order.buffer >= 0) tower.free_buffers.push_back(order.buffer);
  if (tower.lost && has_tower(unit)) {
    unit.scheduler->encode_lost(order.id);
    return;
  }
  const std::vector<ImageOutcome> outcomes(order.items.size(), ImageOutcome::kFailed);
  unit.scheduler->encode_done(order.id, outcomes, failed);
}

void TierScheduler::transfer_done(const TransferOrder& order,
                                  std::span<const ImageOutcome> outcomes,
                                  std::vector<RequestId>& failed) {
  units_[at(order.unit)].scheduler->transfer_done(outcomes, failed);
  towers_[at(order.tower)].free_buffers.push_back(order.buffer);
}

void TierScheduler::step_done(int32_t index, std::span<const int32_t> tokens, int64_t duration_us) {
  Unit& unit = units_[at(index)];
  unit.step_time.saw(unit.step_tokens, duration_us);
  if (unit.role == UnitRole::kThief) {
    for (const RequestState* request : unit.scheduler->by_arrival()) {
      residences_.at(request->id).ran_us += duration_us;
    }
  }
  changing(index).step_done(tokens);
}

void TierScheduler::step_failed(int32_t index) {
  changing(index).step_failed();
}

// ---- ends

void TierScheduler::finish(RequestId id, int32_t choice) {
  constexpr double kNew = 0.05;  // weight of the newest output
  Scheduler& scheduler = changing(unit_of(id));
  const auto n_outputs =
      std::ssize(scheduler.request(id)->choices.at(static_cast<size_t>(choice)).outputs);
  const int64_t expected = expected_outputs();
  mean_output_tokens_ += kNew * (static_cast<double>(n_outputs) - mean_output_tokens_);
  if (expected_outputs() != expected) {
    for (Unit& unit : units_) unit.work_left.reset();
  }
  if (scheduler.request(id)->n_unfinished == 1) end_turn(*scheduler.request(id));
  scheduler.finish(id, choice);
  if (scheduler.request(id) == nullptr) residences_.erase(id);
}

void TierScheduler::cancel(RequestId id) {
  const auto placed = residences_.find(id);
  if (placed == residences_.end()) return;
  end_turn(*request(id));
  const int32_t unit = placed->second.unit;
  residences_.erase(placed);
  const auto is_it = [&](const auto& handoff) { return handoff->request->id == id; };
  const auto moving = std::ranges::find_if(handoffs_, is_it);
  if (moving == handoffs_.end()) {
    changing(unit).cancel(id);
    return;
  }
  (*moving)->request->cancelled = true;  // until a lane that copies it is done
  if ((*moving)->sent) return;
  end_handoff(**moving);
  handoffs_.erase(moving);
}

// ---- state

const RequestState* TierScheduler::request(RequestId id) const {
  const auto placed = residences_.find(id);
  if (placed == residences_.end()) return nullptr;
  if (const RequestState* state = units_[at(placed->second.unit)].scheduler->request(id)) {
    return state;
  }
  for (const auto& handoff : handoffs_) {
    if (handoff->request->id == id) return handoff->request.get();
  }
  return nullptr;
}

int32_t TierScheduler::unit_of(RequestId id) const {
  const auto placed = residences_.find(id);
  return placed == residences_.end() ? -1 : placed->second.unit;
}

bool TierScheduler::was_stolen(RequestId id) const {
  const auto placed = residences_.find(id);
  return placed != residences_.end() && placed->second.home >= 0;
}

bool TierScheduler::order_out() const {
  return !handoffs_.empty() || std::ranges::any_of(units_, [](const Unit& unit) {
    const Scheduler& scheduler = *unit.scheduler;
    return scheduler.step_in_flight() || scheduler.encode_in_flight() ||
           scheduler.transfer_in_flight();
  });
}

int32_t TierScheduler::n_requests() const {
  auto n = static_cast<int32_t>(handoffs_.size());
  for (const Unit& unit : units_) n += unit.scheduler->n_requests();
  return n;
}

int32_t TierScheduler::n_running_requests() const {
  auto n = static_cast<int32_t>(handoffs_.size());
  for (const Unit& unit : units_) n += unit.scheduler->n_running_requests();
  return n;
}

bool TierScheduler::serving() const {
  return std::ranges::any_of(units_, [&](const Unit& unit) { return takes_arrivals(unit); });
}

}  // namespace hs
