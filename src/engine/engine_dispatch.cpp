// What the lanes get to do next.
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/engine_impl.h"

namespace hs {

void EngineImpl::dispatch() {
  // Pictures first. A second round, since letting a request in can show that it needs a picture,
  // and so can stealing one.
  for (int round = 0; round < 2; ++round) {
    const int64_t n_steals = tiers_.counters().steals;
    tiers_.plan();
    dispatch_encodes();
    dispatch_transfers();
    dispatch_kv();
    dispatch_steps();
    const bool stole = tiers_.counters().steals > n_steals;
    if ((tiers_.order_out() && !stole) || tiers_.n_requests() == 0) return;
  }
  if (tiers_.order_out()) return;
  // The scheduler's rules say that this cannot be. Were it so all the same, no client should wait
  // for ever.
  log_error("{} requests cannot go on: ending them", tiers_.n_requests());
  ids_.clear();
  for (const auto& [id, request] : active_) ids_.push_back(id);
  fail_requests(engine_error("The engine cannot go on with this request."));
}

PeerLink& EngineImpl::link(size_t from, size_t to) {
  for (EngineLink& link : parts_.links) {
    if (link.from == from && link.to == to) return *link.link;
  }
  HS_CHECK(false && "every pair of devices that exchange anything has a link");
  return *parts_.links.front().link;
}

void EngineImpl::dispatch_encodes() {
  while (tiers_.next_encode(encode_order_)) {
    const int64_t now_us = clock_.now_us();
    const EngineTower& tower = parts_.towers[static_cast<size_t>(encode_order_.tower)];
    const EngineUnit& unit = parts_.units[static_cast<size_t>(encode_order_.unit)];
    auto work = std::make_unique<EncodeWork>(*tower.output, *unit.intake);
    work->order = encode_order_;
    for (const EncodeOrder::Item& item : encode_order_.items) {
      ActiveRequest& request = *active_.at(item.request);
      request.work_started(now_us);
      work->images.push_back(request.images[static_cast<size_t>(item.image)]);
    }
    lanes_[tower.lane].lane->post(std::move(work));
  }
}

void EngineImpl::dispatch_transfers() {
  while (tiers_.next_transfer(transfer_order_)) {
    const EngineTower& tower = parts_.towers[static_cast<size_t>(transfer_order_.tower)];
    const EngineUnit& unit = parts_.units[static_cast<size_t>(transfer_order_.unit)];
    auto work = std::make_unique<TransferWork>(
        *tower.output, *unit.intake, link(tower.lane, unit.lane), parts_.verify_transfers);
    work->order = transfer_order_;
    lanes_[unit.lane].lane->post(std::move(work));
  }
}

void EngineImpl::dispatch_kv() {
  while (tiers_.next_kv(kv_order_)) {
    const EngineUnit& from = parts_.units[static_cast<size_t>(kv_order_.from)];
    const EngineUnit& to = parts_.units[static_cast<size_t>(kv_order_.to)];
    auto work = std::make_unique<KvWork>(from.model->kv(), to.model->kv(), link(from.lane, to.lane),
                                         parts_.verify_transfers);
    work->order = kv_order_;
    lanes_[to.lane].lane->post(std::move(work));
  }
}

void EngineImpl::dispatch_steps() {
  for (size_t i = 0; i < parts_.units.size(); ++i) {
    EngineStep& step = *steps_[i];
    const EngineUnit& unit = parts_.units[i];
    if (step.works.size() < unit.rank_lanes.size()) continue;  // out
    StepOrder& order = step.step.order;
    if (!tiers_.next_step(static_cast<int32_t>(i), order)) continue;
    const int64_t now_us = clock_.now_us();
    for (StepOrder::Item& item : order.items) {
      ActiveRequest& request = *active_.at(item.sequence->request->id);
      request.prefill_started(now_us);
      item.n_scored = n_scored(item, request.inputs);
    }
    step_builders_[i].build(
        order, [this](RequestId id) -> const StepInputs& { return active_.at(id)->inputs; },
        step.step.step);
    step.step.sampled.resize(step.step.step.sample_rows.size());
    // All ranks before any other unit's step, so that two units that share devices never wait for
    // each other.
    for (std::unique_ptr<StepWork>& work : step.works) {
      lanes_[unit.rank_lanes[static_cast<size_t>(work->rank)]].lane->post(std::move(work));
    }
    step.works.clear();
  }
}

}  // namespace hs
