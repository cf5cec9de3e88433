// The orders of all units and towers.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "engine/tier_scheduler.h"

namespace hs {

void TierScheduler::plan() {
  send_back_paused();
  for (int32_t i = 0; i < n_units(); ++i) {
    if (units_[at(i)].role == UnitRole::kPrefill && !units_[at(i)].lost) hand_over(i);
  }
}

// Also while all buffers are full: the next picture begins once a unit has fetched what is in one,
// and would find the device taken.
bool TierScheduler::vision_busy(int32_t device) const {
  for (int32_t t = 0; t < static_cast<int32_t>(towers_.size()); ++t) {
    const Tower& tower = towers_[at(t)];
    if (tower.device != device || tower.lost) continue;
    if (tower.busy) return true;
    if (!tower.free_buffers.empty()) continue;
    for (const Unit& unit : units_) {
      if (unit.device == device || !encodes_for(t, unit)) continue;
      if (unit.scheduler->next_picture() != std::numeric_limits<uint64_t>::max()) return true;
    }
  }
  return false;
}

bool TierScheduler::encodes_for(int32_t tower, const Unit& unit) const {
  return !unit.lost && std::ranges::find(unit.towers, tower) != unit.towers.end();
}

// A tower that is free takes the oldest picture; a unit whose rows have no room has to wait, the
// others need not.
bool TierScheduler::next_encode(EncodeOrder& order) {
  for (int32_t t = 0; t < static_cast<int32_t>(towers_.size()); ++t) {
    Tower& tower = towers_[at(t)];
    if (tower.busy || tower.lost) continue;
    auto& wanting = wanting_;
    wanting.clear();
    for (int32_t u = 0; u < n_units(); ++u) {
      Unit& unit = units_[at(u)];
      if (!encodes_for(t, unit)) continue;
      if (unit.device != tower.device && tower.free_buffers.empty()) continue;
      const uint64_t arrival = unit.scheduler->next_picture();
      if (arrival != std::numeric_limits<uint64_t>::max()) wanting.emplace_back(arrival, u);
    }
    std::ranges::sort(wanting);
    for (const auto& [arrival, u] : wanting) {
      const bool local = units_[at(u)].device == tower.device;
      order.unit = u;
      order.tower = t;
      order.buffer = local ? -1 : tower.free_buffers.back();
      if (!units_[at(u)].scheduler->next_encode(order)) continue;
      if (!local) tower.free_buffers.pop_back();
      tower.busy = true;
      return true;
    }
  }
  return false;
}

bool TierScheduler::next_transfer(TransferOrder& order) {
  // To a lost unit, too: the copy fails there, and the tower has its buffer back.
  return std::ranges::any_of(units_,
                             [&](Unit& unit) { return unit.scheduler->next_transfer(order); });
}

bool TierScheduler::next_kv(KvOrder& order) {
  for (const auto& handoff : handoffs_) {
    if (handoff->sent) continue;
    handoff->sent = true;
    order = handoff->order;
    return true;
  }
  return false;
}

bool TierScheduler::next_step(int32_t index, StepOrder& order) {
  Unit& unit = units_[at(index)];
  order.items.clear();
  if (unit.lost || unit.scheduler->step_in_flight()) return false;
  if (unit.role == UnitRole::kThief) {
    if (vision_busy(unit.device)) return false;
    steal(index);
    // Before a step has been seen nothing is known of how long one takes: the first is short.
    constexpr int32_t kFirstTokens = 8;
    const int32_t tokens = unit.step_time.known()
                               ? unit.step_time.tokens_within(config_.steal_delay_us)
                               : kFirstTokens;
    unit.scheduler->limit_steps(tokens, tokens);
  }
  const bool ordered = changing(index).next_step(order);  // it may preempt
  for (const uint64_t arrival : unit.scheduler->admitted()) {
    turns_.at(priority_class(arrival)).begin(turn_of(arrival));
  }
  if (!ordered) return false;
  unit.step_tokens = order.n_tokens;
  return true;
}

}  // namespace hs
