// What runs where: the language units and vision towers of all pools, as one pure state machine on
// top of one Scheduler a unit. Same rule as there: events in, orders out, no IO, no clock, no
// thread. Durations that a decision needs come with the events.
//
// - An arriving request goes to the serving unit with the least work left.
// - Tenants (API keys) take turns within each class of priority, by the tokens that their requests
//   take (base/fair_turns.h): one that queues many lets another's single one pass. A full queue
//   still takes one of a tenant that has none in it.
// - A tower encodes for the unit with the oldest request that needs a picture; rows for another
//   device wait in one of the tower's buffers until that unit's lane has fetched them. A buffer is
//   reserved before encoding and free again after the transfer, so a burst of pictures queues.
// - Stealing: a thief, a language unit on a tower's device, takes whole requests that nobody has
//   begun from a unit that has more to do. Vision goes first: while the device's tower has work no
//   step is started, and steps are cut so short that a picture waits at most steal_delay_us for the
//   one in flight. A stolen request that vision has kept waiting longer than steal_pause_us in all
//   (four times as long once its pictures are encoded) goes back when it is predicted to be done
//   sooner there, is run again from its tokens, and is not stolen again.
// - Stage split: a prefill unit hands a request over to a decode unit when its prompt has run; its
//   KV blocks are copied.
// - A lost device takes the requests with it that have state on it; all others go on elsewhere.
//
// Owned by the engine; the loop thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fair_turns.h"
#include "base/function_ref.h"
#include "engine/partition.h"
#include "engine/scheduler.h"
#include "engine/step_time.h"

namespace hs {

enum class UnitRole {
  kServe,    // whole requests
  kPrefill,  // prompts; hands over to a decode unit
  kDecode,   // goes on after a prefill unit
  kThief,    // whole requests that it takes from serving units
};

struct TierConfig {
  struct Tower {
    int32_t device = 0;  // index; units and towers with the same one share a lane
    int32_t n_buffers = 2;
  };
  struct Unit {
    int32_t device = 0;
    UnitRole role = UnitRole::kServe;
    SchedulerConfig scheduling;
    std::vector<int32_t> towers;              // that may encode for it, best first
    std::vector<int32_t> other_devices = {};  // that it is lost with, too
  };
  std::vector<Tower> towers;
  std::vector<Unit> units;
  int32_t max_queue = 256;  // requests of all units that have never been admitted
  StealMode steal = StealMode::kAuto;
  int64_t steal_delay_us = 50'000;
  int64_t steal_pause_us = 2'000'000;
};

// Copies the keys and values of a request from one unit's cache to another's.
struct KvOrder {
  uint64_t id = 0;
  RequestId request = 0;
  int32_t from = 0;  // units
  int32_t to = 0;
  std::vector<KvMove> moves;
};

class TierScheduler {
 public:
  explicit TierScheduler(const TierConfig& config);
  TierScheduler(const TierScheduler&) = delete;
  TierScheduler& operator=(const TierScheduler&) = delete;

  // ---- events

  // As Scheduler::arrived(); kResourceExhausted "queue_full" when the queue has no room,
  // kUnavailable when no unit is left that could serve it.
  Result<int32_t> arrived(NewRequest request);
  void encode_done(const EncodeOrder& order, std::span<const ImageOutcome> outcomes,
                   int64_t duration_us, std::vector<RequestId>& failed);
  // The order failed as a whole. Where the tower is lost and another is left, that one encodes the
  // pictures; else their requests are appended to `failed`.
  void encode_failed(const EncodeOrder& order, std::vector<RequestId>& failed);
  // One outcome an item, all failed when the copy has.
  void transfer_done(const TransferOrder& order, std::span<const ImageOutcome> outcomes,
                     std::vector<RequestId>& failed);
  void kv_done(uint64_t order_id, bool ok, std::vector<RequestId>& failed);
  void step_done(int32_t unit, std::span<const int32_t> tokens, int64_t duration_us);
  void step_failed(int32_t unit);
  void finish(RequestId id, int32_t choice);
  void cancel(RequestId id);
  // Orders still out on the device must come back as failed. Appends the requests that have state
  // there, or that need a tower when none is left; the caller cancels them.
  void device_lost(int32_t device, std::vector<RequestId>& failed);

  // ---- orders: first plan(), then each kind until it says false.

  void plan();
  bool next_encode(EncodeOrder& order);
  bool next_transfer(TransferOrder& order);
  bool next_kv(KvOrder& order);
  bool next_step(int32_t unit, StepOrder& order);

  // ---- state

  // Also while it is between two units.
  const RequestState* request(RequestId id) const;
  // The unit that has it or that it moves to; -1 when unknown.
  int32_t unit_of(RequestId id) const;
  bool was_stolen(RequestId id) const;
  int32_t n_units() const { return static_cast<int32_t>(units_.size()); }
  const Scheduler& unit(int32_t index) const { return *units_[at(index)].scheduler; }
  bool order_out() const;
  int32_t n_requests() const;          // cancelled ones that a lane works on included
  int32_t n_running_requests() const;  // with at least one sequence that runs
  int32_t n_tenants_waiting() const;   // with a request that was never let in; one a class, at most
  bool degraded() const { return n_lost_ > 0; }  // a device is lost
  bool serving() const;                          // some unit takes requests

  struct Counters {
    int64_t steals = 0;
    int64_t returns = 0;   // stolen requests that went back
    int64_t handoffs = 0;  // from prefill to decode units
    int64_t rehomed = 0;   // requests moved off a lost device
  };
  const Counters& counters() const { return counters_; }

 private:
  struct Tower {
    int32_t device = 0;
    bool lost = false;
    bool busy = false;  // an encode order is out
    std::vector<int32_t> free_buffers = {};
  };
  // What a unit, or one request of it, still has to run; outputs are guessed from past ones.
  struct WorkLeft {
    int64_t tokens = 0;
    int64_t steps = 0;  // of the longest output
  };
  struct Unit {
    int32_t device = 0;
    UnitRole role = UnitRole::kServe;
    bool lost = false;
    std::vector<int32_t> towers;
    std::vector<int32_t> other_devices;
    std::unique_ptr<Scheduler> scheduler;
    StepTime step_time = {};
    int32_t step_tokens = 0;  // of the step in flight
    // Kept until something that it is made of changes: it is asked for again and again.
    mutable std::optional<WorkLeft> work_left = {};
  };
  struct Residence {
    int32_t unit = 0;
    int32_t home = -1;         // of a stolen request
    bool never_again = false;  // went back once
    int64_t paused_us = 0;     // by vision, since it was stolen
    int64_t ran_us = 0;        // steps of the thief since then
  };
  struct Handoff {
    KvOrder order;
    std::unique_ptr<RequestState> request;
    std::vector<BlockId> held;  // at the source
    bool sent = false;
  };

  static size_t at(int32_t index) { return static_cast<size_t>(index); }

  bool has_role(UnitRole role) const;  // some unit that is not lost
  bool takes_arrivals(const Unit& unit) const;
  std::optional<int32_t> least_loaded(FunctionRef<bool(const Unit&)> suits) const;
  Status clamp_to_handover(const Unit& prefill, NewRequest& request) const;
  Status check_queue(uint64_t tenant) const;
  uint64_t take_turn(const NewRequest& request);
  void end_turn(const RequestState& request);
  WorkLeft work_left(const RequestState& request) const;
  const WorkLeft& work_left(const Unit& unit) const;
  int64_t expected_outputs() const { return static_cast<int64_t>(mean_output_tokens_) + 1; }
  // The unit, for something that changes what its requests have to run.
  Scheduler& changing(int32_t unit) {
    units_[at(unit)].work_left.reset();
    return *units_[at(unit)].scheduler;
  }
  bool has_tower(const Unit& unit) const;
  static bool stands_on(const Unit& unit, int32_t device);
  bool vision_busy(int32_t device) const;
  bool encodes_for(int32_t tower, const Unit& unit) const;
  void pause_stolen(int32_t device, int64_t duration_us);
  void send_back_paused();
  bool sooner_at_home(const RequestState& request, const Residence& residence) const;
  void steal(int32_t thief);
  bool worth_stealing(const RequestState& request, const Unit& home, const Unit& thief) const;
  void move(RequestId id, int32_t to);
  void hand_over(int32_t from);
  void end_handoff(Handoff& handoff);
  void lose_unit(int32_t index, std::vector<RequestId>& failed);

  TierConfig config_;
  std::vector<Tower> towers_;
  std::vector<Unit> units_;
  std::unordered_map<RequestId, Residence> residences_;
  std::vector<std::unique_ptr<Handoff>> handoffs_;  // oldest first
  std::map<uint64_t, FairTurns> turns_;             // by class of priority; none is empty
  uint64_t n_handoffs_ = 0;
  int32_t n_lost_ = 0;
  double mean_output_tokens_ = 64;  // of the choices that have finished, recent ones weighted most
  Counters counters_;
  std::vector<std::pair<uint64_t, int32_t>> wanting_;  // work area
};

}  // namespace hs
