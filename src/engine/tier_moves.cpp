// What makes a request change its unit: stealing, going back, the hand-over after prefill, a lost
// device.
#include <algorithm>

#include "base/check.h"
#include "engine/tier_scheduler.h"

namespace hs {

// REQUIRES: its unit can give it up.
void TierScheduler::move(RequestId id, int32_t to) {
  Residence& residence = residences_.at(id);
  changing(to).give(changing(residence.unit).take(id));
  residence.unit = to;
}

// ---- stealing

namespace {

// Whether a request with pictures has not begun. The tower takes its pictures last, after those of
// everybody older; of several most would be paused too long and go back, their pictures encoded for
// nothing.
bool picture_waits(const Scheduler& thief) {
  return std::ranges::any_of(thief.by_arrival(), [](const RequestState* request) {
    return !request->images.empty() && request->choices.front().n_computed == 0;
  });
}

}  // namespace

// Compared without the request itself where it is: it would not wait for itself.
bool TierScheduler::worth_stealing(const RequestState& request, const Unit& home,
                                   const Unit& thief) const {
  if (!request.images.empty() && !has_tower(thief)) return false;
  if (!thief.scheduler->check_fits(request.n_prompt(), request.images)) return false;
  if (request.n_prompt() + request.max_tokens > thief.scheduler->context_limit()) return false;
  const WorkLeft own = work_left(request);
  const WorkLeft here = work_left(home);
  const WorkLeft there = work_left(thief);
  if (here.tokens - own.tokens <= there.tokens) return false;
  if (config_.steal == StealMode::kOn || !home.step_time.known()) return true;
  // Until the thief has run a step it is taken to be like the other unit.
  const StepTime& thief_time = thief.step_time.known() ? thief.step_time : home.step_time;
  return thief_time.predict_us(there.tokens + own.tokens, std::max(there.steps, own.steps)) <
         home.step_time.predict_us(here.tokens, std::max(here.steps, own.steps));
}

void TierScheduler::steal(int32_t thief_index) {
  if (config_.steal == StealMode::kOff) return;
  Unit& thief = units_[at(thief_index)];
  // As many as a step can hold; those that wait here would be better off at home.
  while (thief.scheduler->n_running() + thief.scheduler->n_waiting() <
             thief.scheduler->config().max_num_seqs &&
         !picture_waits(*thief.scheduler)) {
    const RequestState* oldest = nullptr;
    for (const Unit& home : units_) {
      if (home.lost || home.role != UnitRole::kServe) continue;
      const RequestState* request = home.scheduler->oldest_untouched();
      if (request == nullptr || residences_.at(request->id).never_again) continue;
      if (!worth_stealing(*request, home, thief)) continue;
      if (oldest == nullptr || request->arrival < oldest->arrival) oldest = request;
    }
    if (oldest == nullptr) return;
    Residence& residence = residences_.at(oldest->id);
    residence.home = residence.unit;
    residence.paused_us = 0;
    residence.ran_us = 0;
    move(oldest->id, thief_index);
    ++counters_.steals;
  }
}

// The tower has kept the device from the language work on it for so long.
void TierScheduler::pause_stolen(int32_t device, int64_t duration_us) {
  for (const Unit& unit : units_) {
    if (unit.role != UnitRole::kThief || unit.device != device) continue;
    for (const RequestState* request : unit.scheduler->by_arrival()) {
      residences_.at(request->id).paused_us += duration_us;
    }
  }
}

// Going back means running again what the thief has computed, which an answer that is nearly
// complete, or a unit with much to do, makes a poor trade. The thief is taken to be paused for as
// large a part of the time as it was so far.
bool TierScheduler::sooner_at_home(const RequestState& request, const Residence& residence) const {
  const Unit& home = units_[at(residence.home)];
  const Unit& thief = units_[at(residence.unit)];
  if (residence.ran_us == 0 || !home.step_time.known() || !thief.step_time.known()) return true;
  int64_t n_again = 0;
  for (const Sequence& sequence : request.choices) {
    if (sequence.state != SequenceState::kFinished) n_again += sequence.n_computed;
  }
  const WorkLeft own = work_left(request);
  const WorkLeft here = work_left(home);
  const WorkLeft there = work_left(thief);
  const double slower =
      1 + static_cast<double>(residence.paused_us) / static_cast<double>(residence.ran_us);
  return home.step_time.predict_us(here.tokens + own.tokens + n_again,
                                   std::max(here.steps, own.steps)) <
         thief.step_time.predict_us(there.tokens, there.steps) * slower;
}

void TierScheduler::send_back_paused() {
  // A picture that the thief has would go through the tower again, before newer ones that wait.
  constexpr int64_t kPatienceWithPictures = 4;
  for (const Unit& unit : units_) {
    if (unit.role != UnitRole::kThief) continue;
    const Scheduler& thief = *unit.scheduler;
    for (size_t i = 0; i < thief.by_arrival().size();) {
      const RequestState& request = *thief.by_arrival()[i++];
      const RequestId id = request.id;
      Residence& residence = residences_.at(id);
      if (residence.home < 0 || residence.paused_us <= config_.steal_pause_us) continue;
      if (units_[at(residence.home)].lost || !thief.can_take(id)) continue;
      const bool encoded = !request.images.empty() && !thief.needs_picture(request);
      if (encoded && residence.paused_us <= kPatienceWithPictures * config_.steal_pause_us) {
        continue;
      }
      if (!sooner_at_home(request, residence)) continue;
      move(id, residence.home);
      --i;  // the next one has taken its place
      residence.home = -1;
      residence.never_again = true;
      ++counters_.returns;
    }
  }
}

// ---- stage split

// Oldest first; when one finds no room, those behind it wait too.
void TierScheduler::hand_over(int32_t from) {
  Unit& source = units_[at(from)];
  for (;;) {
    const auto requests = source.scheduler->by_arrival();
    const auto done = std::ranges::find_if(requests, [&](const RequestState* request) {
      return request->started && source.scheduler->prompt_done(*request);
    });
    const auto decodes = [](const Unit& unit) {
      return !unit.lost && unit.role == UnitRole::kDecode;
    };
    const std::optional<int32_t> to = least_loaded(decodes);
    if (done == requests.end() || !to) return;

    auto handoff = std::make_unique<Handoff>();
    handoff->request = changing(from).take_with_blocks((*done)->id, handoff->held);
    KvOrder& order = handoff->order;
    Unit& target = units_[at(*to)];
    if (!target.scheduler->reserve_moved(*handoff->request, order.moves)) {
      changing(from).adopt(std::move(handoff->request));
      return;
    }
    order.id = ++n_handoffs_;
    order.request = handoff->request->id;
    order.from = from;
    order.to = *to;
    residences_.at(order.request).unit = *to;
    handoffs_.push_back(std::move(handoff));
  }
}

// The blocks on both sides are free again.
void TierScheduler::end_handoff(Handoff& handoff) {
  units_[at(handoff.order.from)].scheduler->release_moved(handoff.held);
  if (handoff.request != nullptr) {
    units_[at(handoff.order.to)].scheduler->drop_moved(*handoff.request);
  }
}

void TierScheduler::kv_done(uint64_t order_id, bool ok, std::vector<RequestId>& failed) {
  const auto it = std::ranges::find_if(
      handoffs_, [&](const auto& handoff) { return handoff->order.id == order_id; });
  HS_CHECK(it != handoffs_.end());
  const std::unique_ptr<Handoff> handoff = std::move(*it);
  handoffs_.erase(it);
  Unit& target = units_[at(handoff->order.to)];
  if (handoff->request->cancelled) {
    end_handoff(*handoff);
  } else if (!ok || target.lost) {
    const RequestId id = handoff->order.request;
    failed.push_back(id);
    end_turn(*handoff->request);
    end_handoff(*handoff);
    residences_.erase(id);
  } else {
    changing(handoff->order.to).adopt(std::move(handoff->request));
    end_handoff(*handoff);
    ++counters_.handoffs;
  }
}

// ---- lost devices

bool TierScheduler::stands_on(const Unit& unit, int32_t device) {
  return unit.device == device ||
         std::ranges::find(unit.other_devices, device) != unit.other_devices.end();
}

void TierScheduler::device_lost(int32_t device, std::vector<RequestId>& failed) {
  ++n_lost_;
  for (Tower& tower : towers_) {
    if (tower.device == device) tower.lost = true;
  }
  for (Unit& unit : units_) {
    if (stands_on(unit, device)) unit.lost = true;
  }
  if (!has_role(UnitRole::kDecode)) {
    for (Unit& unit : units_) unit.scheduler->set_decodes(true);
  }
  for (int32_t i = 0; i < n_units(); ++i) {
    if (stands_on(units_[at(i)], device)) lose_unit(i, failed);
  }
  for (Unit& unit : units_) {
    if (unit.lost || has_tower(unit)) continue;
    for (const RequestState* request : unit.scheduler->by_arrival()) {
      if (unit.scheduler->needs_picture(*request)) failed.push_back(request->id);
    }
  }
}

// Requests without anything on the device go on elsewhere; the others end.
void TierScheduler::lose_unit(int32_t index, std::vector<RequestId>& failed) {
  Scheduler& scheduler = *units_[at(index)].scheduler;
  std::vector<RequestId> ids;
  for (const RequestState* request : scheduler.by_arrival()) ids.push_back(request->id);
  for (const RequestId id : ids) {
    const RequestState& request = *scheduler.request(id);
    const bool untouched = std::ranges::all_of(request.choices, [](const Sequence& sequence) {
      return sequence.n_computed == 0 && sequence.outputs.empty();
    });
    const std::optional<int32_t> to = least_loaded([&](const Unit& unit) {
      return takes_arrivals(unit) && (request.images.empty() || has_tower(unit)) &&
             unit.scheduler->check_fits(request.n_prompt(), request.images).has_value() &&
             request.n_prompt() + request.max_tokens <= unit.scheduler->context_limit();
    });
    if (!untouched || !scheduler.can_take(id) || !to) {
      failed.push_back(id);
      continue;
    }
    move(id, *to);
    residences_.at(id).home = -1;
    ++counters_.rehomed;
  }
}

}  // namespace hs
