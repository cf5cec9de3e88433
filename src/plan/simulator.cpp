#include "plan/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "base/check.h"
#include "plan/arrivals.h"
#include "plan/measured_times.h"
#include "plan/sim_topology.h"

namespace hs {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double percentile(std::vector<float>& values, double share) {
  if (values.empty()) return std::nan("");
  const double at = share * static_cast<double>(values.size() - 1);
  const auto index = static_cast<std::ptrdiff_t>(std::lround(at));
  std::ranges::nth_element(values, values.begin() + index);
  return static_cast<double>(values[static_cast<size_t>(index)]);
}

Percentiles percentiles(std::vector<float>& values) {
  return {percentile(values, 0.5), percentile(values, 0.9), percentile(values, 0.99)};
}

class Simulation {
 public:
  Simulation(const ModelShape& shape, const Workload& workload, const SimOptions& options,
             const SimTopology& topology)
      : options_(options),
        shape_(shape),
        topology_(topology),
        tiers_(topology.tiers),
        arrivals_(workload, options),
        lanes_(topology.devices.size()),
        steps_(topology.tiers.units.size()),
        encodes_(topology.tiers.towers.size()),
        row_bytes_(static_cast<double>(shape.language.dim) * DeviceModel::kValueBytes),
        kv_token_bytes_(static_cast<double>(shape.kv_token_bytes(DeviceModel::kValueBytes))),
        n_warmup_(
            static_cast<int64_t>(options.warmup_share * static_cast<double>(arrivals_.n_left()))) {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i].stats.name = topology.names[i];
      lanes_[i].device = topology.devices[i];
      const MeasuredTimes* measured = lanes_[i].device->measured();
      if (measured == nullptr) continue;
      crowding_ = std::max(crowding_, measured->crowding());
      if (measured->embedding_row_bytes() > 0) row_bytes_ = measured->embedding_row_bytes();
      if (measured->kv_row_bytes() > 0) kv_token_bytes_ = measured->kv_row_bytes();
    }
  }

  Result<SimResult> run(int32_t concurrency) {
    if (!arrivals_.open()) {
      for (int32_t i = 0; i < concurrency && arrivals_.n_left() > 0; ++i) arrive();
      dispatch();
    }
    for (;;) {
      const double next = next_event();
      if (next == kNever) break;
      now_us_ = next;
      while (arrivals_.open() && arrivals_.next_us() <= now_us_) arrive();
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        if (lanes_[lane].ends_us <= now_us_) complete(lane);
      }
      dispatch();
      // A client that has its answer asks again after the engine has handed out what it had.
      if (n_due_ > 0) {
        for (; n_due_ > 0 && arrivals_.n_left() > 0; --n_due_) arrive();
        n_due_ = 0;
        dispatch();
      }
      if (crowding_ > 1) share_machine();
    }
    if (n_active_ > 0) {
      return fail(ErrorKind::kInternal,
                  fmt::format("{} simulated requests cannot go on", n_active_));
    }
    return result();
  }

 private:
  using Kind = WorkOrder::Kind;
  struct Work {
    Kind kind = Kind::kStep;
    int32_t index = 0;  // unit of a step, tower of an encode order
    double duration_us = 0;
    double pause_us = 0;  // until the engine has dealt with its end
    int64_t bytes = 0;
    double posted_us = 0;
  };
  struct Lane {
    const DeviceModel* device = nullptr;
    std::deque<Work> orders;  // the first one is being worked on
    double started_us = 0;
    double done_us = 0;       // the device is free
    double ends_us = kNever;  // and the engine has dealt with it
    double slowness = 1;      // of what is left of the order
    SimLane stats;
    Timeline timeline;
  };
  struct Request {
    double arrived_us = 0;
    double first_us = 0;
    int32_t n_outputs = 0;
    int32_t wanted = 0;
    uint32_t generation = 0;  // of this place, so that no number is given twice
    int64_t number = 0;       // in the order of arrival
    bool counts = false;      // after the warm-up
  };

  static size_t at(int32_t index) { return static_cast<size_t>(index); }
  static size_t place_of(RequestId id) { return static_cast<size_t>(id & 0xffffffffU); }

  double next_event() const {
    double next = arrivals_.open() ? arrivals_.next_us() : kNever;
    for (const Lane& lane : lanes_) next = std::min(next, lane.ends_us);
    return next;
  }

  // ---- requests

  void arrive() {
    const RequestShape& shape = arrivals_.take();
    ++n_arrived_;
    if (unused_.empty()) {
      unused_.push_back(requests_.size());
      requests_.emplace_back();
    }
    const size_t place = unused_.back();
    Request& request = requests_[place];
    ++request.generation;
    NewRequest made{.id = RequestId{request.generation} << 32U | place,
                    .arrival = 0,
                    .prompt = std::vector<int32_t>(static_cast<size_t>(shape.n_prompt())),
                    .images = {},
                    .n_choices = 1,
                    .max_tokens = shape.output_tokens};
    int32_t first = 0;
    for (const int32_t rows : shape.image_rows) {
      made.images.push_back(
          {.first = first, .key = {.content_hash = {++n_pictures_, 0}, .n_rows = rows}});
      first += rows;
    }
    if (made.prompt.empty()) made.prompt.push_back(0);
    const Result<int32_t> max_tokens = tiers_.arrived(std::move(made));
    if (!max_tokens) {
      ++(max_tokens.error().kind == ErrorKind::kTooLarge ? n_too_large_ : n_refused_);
      return;
    }
    unused_.pop_back();
    request.arrived_us = now_us_;
    request.n_outputs = 0;
    request.wanted = *max_tokens;
    request.number = n_arrived_ - 1;
    request.counts = n_arrived_ > n_warmup_;
    ++n_active_;
    if (arrivals_.n_left() == 0) last_arrival_us_ = now_us_;
  }

  void token_came(RequestId id) {
    Request& request = requests_[place_of(id)];
    if (request.n_outputs == 0) request.first_us = now_us_;
    if (++request.n_outputs < request.wanted) return;
    tiers_.finish(id, 0);
    finished(request);
    unused_.push_back(place_of(id));
    --n_active_;
    if (!arrivals_.open()) ++n_due_;
  }

  void finished(const Request& request) {
    ++n_finished_;
    total_tokens_ += request.n_outputs;
    if (n_finished_ == std::max<int64_t>(n_warmup_, 1)) measured_from_us_ = now_us_;
    // Of a saturated run only what was answered while new requests came is typical.
    const bool draining = options_.arrivals == ArrivalProcess::kSaturated && last_arrival_us_ >= 0;
    if (n_finished_ > n_warmup_ && !draining) {
      ++n_counted_;
      counted_tokens_ += request.n_outputs;
      measured_to_us_ = now_us_;
    }
    const auto ms = [](double us) { return static_cast<float>(us / 1000); };
    const float ttft = ms(request.first_us - request.arrived_us);
    if (options_.each) {
      each_ttft_ms_.resize(static_cast<size_t>(n_arrived_), 0);
      each_ttft_ms_[static_cast<size_t>(request.number)] = ttft;
    }
    if (!request.counts) return;
    const int32_t gaps = request.n_outputs - 1;
    const float tpot = gaps > 0 ? ms((now_us_ - request.first_us) / gaps) : 0;
    ttft_ms_.push_back(ttft);
    if (gaps > 0) tpot_ms_.push_back(tpot);
    e2e_ms_.push_back(ms(now_us_ - request.arrived_us));
    if (static_cast<double>(ttft) <= options_.ttft_target_ms &&
        static_cast<double>(tpot) <= options_.tpot_target_ms) {
      ++n_good_;
    }
  }

  // ---- orders: as EngineImpl::dispatch()

  void dispatch() {
    for (int round = 0; round < 2; ++round) {
      const int64_t n_steals = tiers_.counters().steals;
      tiers_.plan();
      dispatch_encodes();
      dispatch_transfers();
      dispatch_kv();
      for (int32_t unit = 0; unit < tiers_.n_units(); ++unit) dispatch_step(unit);
      const bool stole = tiers_.counters().steals > n_steals;
      if ((tiers_.order_out() && !stole) || n_active_ == 0) return;
    }
  }

  void post(int32_t lane_index, Work work) {
    Lane& lane = lanes_[at(lane_index)];
    work.posted_us = now_us_;
    lane.orders.push_back(work);
    if (lane.orders.size() == 1) start(lane);
  }

  // The device goes on with what is queued while the engine deals with what is done.
  void start(Lane& lane) {
    lane.ends_us = kNever;
    if (lane.orders.empty()) return;
    const Work& work = lane.orders.front();
    lane.started_us = std::max(lane.done_us, work.posted_us);
    lane.slowness = 1;
    set_end(lane, lane.started_us + work.duration_us);
  }
  void set_end(Lane& lane, double done_us) {
    lane.done_us = done_us;
    lane.ends_us = std::max(now_us_, done_us + lane.orders.front().pause_us);
  }

  // Devices that work at the same time slow each other down: what is left of their orders is
  // stretched to what the number of those at work makes of it.
  void share_machine() {
    const auto works = [&](const Lane& lane) {
      return !lane.orders.empty() && lane.done_us > now_us_;
    };
    const auto n_working = std::ranges::count_if(lanes_, works);
    const auto n_others = static_cast<double>(std::max<int64_t>(std::ssize(lanes_) - 1, 1));
    const double slowness =
        1 + (crowding_ - 1) * static_cast<double>(std::max<int64_t>(n_working - 1, 0)) / n_others;
    for (Lane& lane : lanes_) {
      if (!works(lane) || lane.slowness == slowness) continue;
      const double from_us = std::max(now_us_, lane.started_us);
      const double left_us = (lane.done_us - from_us) / lane.slowness;
      lane.slowness = slowness;
      set_end(lane, from_us + left_us * slowness);
    }
  }

  int32_t lane_of_unit(int32_t unit) const { return topology_.tiers.units[at(unit)].device; }
  int32_t lane_of_tower(int32_t tower) const { return topology_.tiers.towers[at(tower)].device; }

  void dispatch_encodes() {
    while (tiers_.next_encode(encode_order_)) {
      EncodeOrder& order = encodes_[at(encode_order_.tower)];
      order = encode_order_;
      rows_.clear();
      for (const EncodeOrder::Item& item : order.items) rows_.push_back(item.n_rows);
      const int32_t lane = lane_of_tower(order.tower);
      post(lane, {.kind = Kind::kEncode,
                  .index = order.tower,
                  .duration_us = lanes_[at(lane)].device->encode_us(rows_),
                  .pause_us = lanes_[at(lane)].device->pause_us(1)});
      ++n_encode_orders_;
    }
  }

  void post_copy(Kind kind, int32_t from, int32_t to, int64_t n_rows, int64_t bytes) {
    const DeviceModel& source = *lanes_[at(from)].device;
    const DeviceModel& target = *lanes_[at(to)].device;
    const auto rows = static_cast<double>(n_rows);
    const auto copy = kind == Kind::kKv ? kv_copy_us : embedding_copy_us;
    post(to, {.kind = kind,
              .duration_us = copy(shape_, source, target, rows, options_.link),
              .pause_us = target.pause_us(1),
              .bytes = bytes});
  }

  void dispatch_transfers() {
    TransferOrder order;
    while (tiers_.next_transfer(order)) {
      int64_t n_rows = 0;
      for (const TransferOrder::Item& item : order.items) n_rows += item.n_rows;
      const int64_t bytes = std::llround(static_cast<double>(n_rows) * row_bytes_);
      embedding_bytes_ += bytes;
      const int32_t lane = lane_of_unit(order.unit);
      post_copy(Kind::kTransfer, lane_of_tower(order.tower), lane, n_rows, bytes);
      transfers_.push_back(std::move(order));
    }
  }

  void dispatch_kv() {
    KvOrder order;
    while (tiers_.next_kv(order)) {
      int64_t n_rows = 0;
      for (const KvMove& move : order.moves) n_rows += move.n_rows;
      const int64_t bytes = std::llround(static_cast<double>(n_rows) * kv_token_bytes_);
      kv_bytes_ += bytes;
      post_copy(Kind::kKv, lane_of_unit(order.from), lane_of_unit(order.to), n_rows, bytes);
      kvs_.push_back(std::move(order));
    }
  }

  void dispatch_step(int32_t unit) {
    StepOrder& order = steps_[at(unit)];
    if (!tiers_.unit(unit).step_in_flight() && tiers_.next_step(unit, order)) {
      parts_.clear();
      int32_t n_sampled = 0;
      for (const StepOrder::Item& item : order.items) {
        parts_.push_back({item.first, item.count, item.sample});
        n_sampled += item.sample ? 1 : 0;
      }
      const int32_t lane = lane_of_unit(unit);
      post(lane, {.kind = Kind::kStep,
                  .index = unit,
                  .duration_us = lanes_[at(lane)].device->step_us(parts_),
                  .pause_us = lanes_[at(lane)].device->pause_us(n_sampled)});
      ++n_steps_;
      n_step_parts_ += static_cast<int64_t>(order.items.size());
    }
  }

  // ---- the ends of orders

  void complete(size_t index) {
    Lane& lane = lanes_[index];
    Work work = lane.orders.front();
    if (crowding_ > 1) work.duration_us = lane.done_us - lane.started_us;  // as it came out
    if (options_.timeline) record(lane, work);
    lane.orders.pop_front();
    start(lane);
    failed_.clear();
    switch (work.kind) {
      case Kind::kEncode: {
        lane.stats.encode_us += work.duration_us;
        const EncodeOrder& order = encodes_[at(work.index)];
        outcomes_.assign(order.items.size(), ImageOutcome::kOk);
        tiers_.encode_done(order, outcomes_, whole_us(work.duration_us), failed_);
        break;
      }
      case Kind::kTransfer: {
        lane.stats.copy_us += work.duration_us;
        const auto order = first_to(
            transfers_, index, [&](const TransferOrder& one) { return lane_of_unit(one.unit); });
        outcomes_.assign(order.items.size(), ImageOutcome::kOk);
        tiers_.transfer_done(order, outcomes_, failed_);
        break;
      }
      case Kind::kKv: {
        lane.stats.copy_us += work.duration_us;
        const auto order =
            first_to(kvs_, index, [&](const KvOrder& one) { return lane_of_unit(one.to); });
        tiers_.kv_done(order.id, true, failed_);
        break;
      }
      case Kind::kStep:
        complete_step(lane, work);
        break;
    }
    HS_CHECK(failed_.empty());
  }

  // The oldest order to the lane, which executes them in order, one unit a lane.
  template <typename Order, typename LaneOf>
  static Order first_to(std::deque<Order>& orders, size_t lane, const LaneOf& lane_of) {
    const auto it = std::ranges::find_if(
        orders, [&](const Order& order) { return at(lane_of(order)) == lane; });
    HS_CHECK(it != orders.end());
    Order order = std::move(*it);
    orders.erase(it);
    return order;
  }

  void complete_step(Lane& lane, const Work& work) {
    lane.stats.step_us += work.duration_us;
    const bool stolen = topology_.tiers.units[at(work.index)].role == UnitRole::kThief;
    if (stolen) lane.stats.stolen_us += work.duration_us;
    // The order's sequences may be gone after step_done().
    sampled_.clear();
    for (const StepOrder::Item& item : steps_[at(work.index)].items) {
      if (item.sample) sampled_.push_back(item.sequence->request->id);
    }
    tokens_.assign(sampled_.size(), 0);
    tiers_.step_done(work.index, tokens_, whole_us(work.duration_us));
    for (const RequestId id : sampled_) token_came(id);
  }

  static int64_t whole_us(double us) { return std::max<int64_t>(1, std::llround(us)); }

  void record(Lane& lane, const Work& work) {
    TimelineEntry entry{.kind = work.kind,
                        .started_us = std::llround(lane.started_us),
                        .finished_us = std::llround(lane.started_us + work.duration_us)};
    if (work.kind == Kind::kStep) {
      const StepOrder& order = steps_[at(work.index)];
      entry.unit = work.index;
      entry.n_requests = static_cast<int32_t>(order.items.size());
      entry.n_rows = order.n_tokens;
      entry.n_sampled =
          static_cast<int32_t>(std::ranges::count(order.items, true, &StepOrder::Item::sample));
      entry.stolen = topology_.tiers.units[at(work.index)].role == UnitRole::kThief;
    } else if (work.kind == Kind::kEncode) {
      const EncodeOrder& order = encodes_[at(work.index)];
      entry.unit = order.unit;
      entry.n_requests = static_cast<int32_t>(order.items.size());
      entry.n_rows = static_cast<int32_t>(order.n_rows);
    } else {
      entry.bytes = work.bytes;
      entry.n_requests = 1;
    }
    lane.timeline.add(entry);
  }

  Result<SimResult> result() {
    SimResult result;
    result.n_finished = n_finished_;
    result.n_refused = n_refused_;
    result.n_too_large = n_too_large_;
    result.n_measured = n_counted_;
    result.duration_us = measured_to_us_ - measured_from_us_;
    const double seconds = result.duration_us / 1e6;
    if (seconds > 0) {
      result.requests_per_s = static_cast<double>(n_counted_) / seconds;
      result.output_tokens_per_s = static_cast<double>(counted_tokens_) / seconds;
    }
    if (!e2e_ms_.empty()) {
      result.good_share = static_cast<double>(n_good_) / static_cast<double>(e2e_ms_.size());
    }
    result.goodput_per_s = result.good_share * result.requests_per_s;
    result.ttft_ms = percentiles(ttft_ms_);
    result.tpot_ms = percentiles(tpot_ms_);
    result.e2e_ms = percentiles(e2e_ms_);
    result.total_us = now_us_;
    result.total_tokens = total_tokens_;
    for (Lane& lane : lanes_) {
      result.lanes.push_back(lane.stats);
      if (options_.timeline) {
        result.timeline.push_back({lane.stats.name, lane.timeline.entries()});
      }
    }
    result.embedding_bytes = embedding_bytes_;
    result.kv_bytes = kv_bytes_;
    result.steals = tiers_.counters().steals;
    result.returns = tiers_.counters().returns;
    for (int32_t unit = 0; unit < tiers_.n_units(); ++unit) {
      result.preemptions += tiers_.unit(unit).counters().preemptions;
    }
    result.each_ttft_ms = std::move(each_ttft_ms_);
    result.steps = n_steps_;
    result.step_parts = n_step_parts_;
    result.encode_orders = n_encode_orders_;
    return result;
  }

  const SimOptions& options_;
  const ModelShape& shape_;
  const SimTopology& topology_;
  TierScheduler tiers_;
  Arrivals arrivals_;
  std::vector<Lane> lanes_;
  std::vector<StepOrder> steps_;      // out, by unit
  std::vector<EncodeOrder> encodes_;  // out, by tower
  std::deque<TransferOrder> transfers_;
  std::deque<KvOrder> kvs_;
  double row_bytes_;
  double kv_token_bytes_;
  double crowding_ = 1;
  double now_us_ = 0;

  std::vector<Request> requests_;
  std::vector<size_t> unused_;  // places of requests_
  uint64_t n_pictures_ = 0;
  int64_t n_arrived_ = 0;
  int64_t n_active_ = 0;
  int64_t n_due_ = 0;  // requests of clients that have just been answered
  int64_t n_finished_ = 0;
  int64_t n_refused_ = 0;
  int64_t n_too_large_ = 0;
  int64_t n_warmup_ = 0;
  double last_arrival_us_ = -1;
  double measured_from_us_ = 0;
  double measured_to_us_ = 0;
  int64_t n_counted_ = 0;
  int64_t counted_tokens_ = 0;
  int64_t total_tokens_ = 0;
  int64_t n_good_ = 0;
  int64_t embedding_bytes_ = 0;
  int64_t kv_bytes_ = 0;
  int64_t n_steps_ = 0;
  int64_t n_step_parts_ = 0;
  int64_t n_encode_orders_ = 0;
  std::vector<float> ttft_ms_;
  std::vector<float> tpot_ms_;
  std::vector<float> e2e_ms_;
  std::vector<float> each_ttft_ms_;

  // Work areas.
  EncodeOrder encode_order_;
  std::vector<int32_t> rows_;
  std::vector<StepPart> parts_;
  std::vector<ImageOutcome> outcomes_;
  std::vector<RequestId> sampled_;
  std::vector<int32_t> tokens_;
  std::vector<RequestId> failed_;
};

}  // namespace

Result<SimResult> simulate(const SimArm& arm, const ModelShape& shape, const Workload& workload,
                           const SimOptions& options) {
  Result<SimTopology> topology = make_sim_topology(arm, shape, options);
  if (!topology) return std::unexpected(topology.error());
  int32_t concurrency = options.concurrency;
  if (options.arrivals == ArrivalProcess::kSaturated) {
    // As many again as can run, waiting: no device runs dry.
    if (concurrency == 0) concurrency = 2 * topology->n_seqs;
    topology->tiers.max_queue = std::max(topology->tiers.max_queue, concurrency);
  }
  return Simulation(shape, workload, options, *topology).run(concurrency);
}

}  // namespace hs
