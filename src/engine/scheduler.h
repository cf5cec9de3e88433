// What runs next on one language unit, a language model with its KV cache and receive slots: a pure
// state machine. Events in (arrived, encoded, transferred, step done, finished, cancelled), orders
// out (encode these pictures, transfer these embeddings, run this step). No IO, no clock, no
// thread, no tensors: the same events give the same orders, whether real lanes, a test's script or
// a device model sends them. Several units together are the business of tier_scheduler.h, which
// moves requests between them by take(), give() and adopt().
//
// Policy:
// - Requests of a lower priority number go first, and among equals those that the tier scheduler
// gave an earlier place: that is "older" here. Places never change, and whoever arrives is younger
// than all of its class that have been let in. The oldest request can always take what it needs, so
// nothing deadlocks.
// - A step takes decode tokens first, then prefill chunks, up to the token budget: a long prompt
// never stalls a
//   stream. A chunk may end anywhere, also inside a picture, and never passes a picture that has
//   not arrived.
// - When blocks run out, the youngest sequence is preempted: it gives all its blocks back, waits,
// and runs its
//   tokens again later. New requests are let in only while the blocks of those already running stay
//   in reach.
// - A picture's receive slot is reserved before it is encoded. An older request (or choice) takes
// slots away from a
//   younger one that waits, if there is no other way.
//
// Owned by the tier scheduler; the loop thread only. One step order is out at a time, and as many
// encode orders as there are towers that ask.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/block_pool.h"
#include "engine/embedding_slots.h"
#include "engine/sequence.h"

namespace hs {

struct SchedulerConfig {
  int32_t block_size = 16;
  int32_t n_blocks = 0;
  int32_t max_model_len = 0;
  int32_t max_num_seqs = 64;
  int32_t max_num_batched_tokens = 512;
  int32_t max_encode_images = 4;
  int64_t embedding_rows = 0;   // 0: no pictures
  int64_t max_encode_rows = 0;  // of one encode order
  bool prefix_cache = true;
  // A prompt runs up to its first picture that has not arrived. False: once all have, which is only
  // good for measuring what the overlap is worth.
  bool overlap = true;
  bool decodes = true;  // false: only prompts are run, up to and with the first token
};

struct NewRequest {
  RequestId id = 0;
  uint64_t arrival = 0;  // its place, as RequestState's; no other request's
  std::vector<int32_t> prompt;
  std::vector<PromptImage> images;  // by position, not overlapping
  int32_t n_choices = 1;
  int32_t max_tokens = 1;
  int32_t priority = 0;  // lower goes first; this and the next are the TierScheduler's business
  uint64_t tenant = 0;   // whose it is: tenants of a class take turns
  uint64_t cache_salt = 0;
  bool reads_cache = true;
};

struct EncodeOrder {
  struct Item {
    RequestId request = 0;
    int32_t choice = 0;  // the first that needs it
    int32_t image = 0;   // index in the request
    SlotId slot = kNoSlot;
    int32_t n_rows = 0;
  };
  uint64_t id = 0;
  std::vector<Item> items;
  int64_t first_row = 0;  // of the unit's embedding memory; the items' rows follow each other
  int64_t n_rows = 0;
  int32_t unit = 0;     // whose embedding memory
  int32_t tower = 0;    // who encodes
  int32_t buffer = -1;  // of the tower, to hold the rows until they are transferred; -1: the tower
                        // stands on the unit's device and writes to its embedding memory
};

enum class ImageOutcome : uint8_t { kOk, kFailed };

struct TransferOrder {
  struct Item {
    SlotId slot = kNoSlot;
    int64_t buffer_row = 0;  // first row in the tower's buffer
    int64_t first_row = 0;   // first row of the embedding memory
    int64_t n_rows = 0;
  };
  uint64_t id = 0;  // of its encode order
  int32_t unit = 0;
  int32_t tower = 0;
  int32_t buffer = -1;
  std::vector<Item> items;
};

// Rows of a KV block that move from one unit's cache to another's.
struct KvMove {
  BlockId from = kNoBlock;
  BlockId to = kNoBlock;
  int32_t n_rows = 0;  // the leading ones
};

struct StepOrder {
  struct Item {
    const Sequence* sequence = nullptr;  // valid until step_done()
    int32_t first = 0;                   // index of the first token to run
    int32_t count = 0;
    bool sample = false;  // it reaches the last known token: the next one is wanted
    // Rows of it that give the log-probability of the prompt's next token; before its sample row.
    // The engine's, zero otherwise.
    int32_t n_scored = 0;
  };
  uint64_t id = 0;
  std::vector<Item> items;
  int32_t n_tokens = 0;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerConfig& config);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // ---- events

  // Whether the request can ever run here: kTooLarge "context_length_exceeded" with both counts, or
  // "image_too_large".
  Status check_fits(int64_t n_prompt, std::span<const PromptImage> images) const;
  // Queues a request and returns its max_tokens, clamped to what the context leaves. Refuses what
  // can never fit.
  Result<int32_t> arrived(NewRequest request);
  // An encode order is done; one outcome a picture. Appends the requests that wait for a failed
  // picture to `failed`; the caller cancels them. False when nothing is left to transfer: then the
  // tower's buffer is free.
  bool encode_done(uint64_t order_id, std::span<const ImageOutcome> outcomes,
                   std::vector<RequestId>& failed);
  // An encode order was lost with its tower: its pictures will be asked for again.
  void encode_lost(uint64_t order_id);
  // The oldest transfer order is done; one outcome an item, all failed when the copy has.
  void transfer_done(std::span<const ImageOutcome> outcomes, std::vector<RequestId>& failed);
  // The step order is done. tokens: one for each sampling item in order, negative if its logits
  // were not finite (the caller then cancels the request; what it has computed will not be
  // re-used).
  void step_done(std::span<const int32_t> tokens);
  // The step order failed; the caller cancels the requests in it.
  void step_failed();
  // A choice is complete. The last one ends the request.
  void finish(RequestId id, int32_t choice);
  // Ends a request at any stage. What a lane still works on is freed when that is done. Unknown ids
  // are ignored.
  void cancel(RequestId id);

  // ---- orders: false when the lane has one already or there is nothing to do. Asked for in this
  // sequence after any event, and a second time if no order is out then: letting a request in can
  // show that it needs a picture.

  // Arrival number of the oldest request with a picture to encode; UINT64_MAX when there is none.
  uint64_t next_picture();
  // Whether a picture of the request is still to be encoded or on its way.
  bool needs_picture(const RequestState& request) const;
  // order.unit, tower and buffer are the caller's and are kept.
  bool next_encode(EncodeOrder& order);
  bool next_transfer(TransferOrder& order);
  bool next_step(StepOrder& order);
  // The places of the requests that the last next_step() let in for the first time.
  std::span<const uint64_t> admitted() const { return admitted_; }
  // Decode tokens or prompts only, from the next step on.
  void set_decodes(bool decodes) { config_.decodes = decodes; }
  // Bounds of the steps to come; at least 1, at most those of the configuration.
  void limit_steps(int32_t max_tokens, int32_t max_seqs);

  // ---- moves between units

  // The oldest request on which no work was spent or is being spent, not even for a picture, or
  // null.
  const RequestState* oldest_untouched() const;
  // Whether every choice that is not finished has run the whole prompt, and no lane works on it.
  bool prompt_done(const RequestState& request) const;
  // Whether no lane works on it.
  bool can_take(RequestId id) const;
  // A request that no lane works on leaves with its tokens; blocks and slots stay behind.
  std::unique_ptr<RequestState> take(RequestId id);
  // A request that another unit gave up; its tokens so far are run again.
  void give(std::unique_ptr<RequestState> request);
  // As take(), but its blocks stay held, one reference a sequence that has them, until
  // release_moved().
  std::unique_ptr<RequestState> take_with_blocks(RequestId id, std::vector<BlockId>& held);
  void release_moved(std::span<const BlockId> held);
  // Gives the sequences of a request from take_with_blocks() of another unit blocks of this one,
  // shared as they were there. False when there is no room now: then nothing has changed.
  bool reserve_moved(RequestState& request, std::vector<KvMove>& moves);
  // Its keys and values have come: it goes on here.
  void adopt(std::unique_ptr<RequestState> request);
  // They have not: its blocks here are free again.
  void drop_moved(RequestState& request);

  // ---- state

  // Tokens of the longest sequence that can run here.
  int32_t context_limit() const;
  const RequestState* request(RequestId id) const;
  const BlockPool& pool() const { return pool_; }
  const EmbeddingSlots& slots() const { return slots_; }
  const SchedulerConfig& config() const { return config_; }
  int32_t n_running() const { return static_cast<int32_t>(running_.size()); }
  // Requests with at least one running sequence.
  int32_t n_running_requests() const {
    int32_t count = 0;  // sequences of one request are neighbours
    for (size_t i = 0; i < running_.size(); ++i)
      if (i == 0 || running_[i]->request != running_[i - 1]->request) ++count;
    return count;
  }
  int32_t n_waiting() const { return static_cast<int32_t>(waiting_.size()); }
  // Requests known, those that were cancelled while a lane works on them included.
  int32_t n_requests() const { return static_cast<int32_t>(requests_.size()); }
  int32_t n_unstarted() const { return n_unstarted_; }  // never admitted: the queue
  // All that are not cancelled, oldest first.
  std::span<RequestState* const> by_arrival() const { return by_arrival_; }
  bool step_in_flight() const { return step_in_flight_; }
  bool encode_in_flight() const { return !encodes_.empty(); }
  bool transfer_in_flight() const { return !transfers_.empty(); }

  struct Counters {
    int64_t preemptions = 0;
    int64_t prefix_queries = 0;  // prompt tokens looked up
    int64_t prefix_hits = 0;
    int64_t image_cache_queries = 0;  // pictures needed
    int64_t image_cache_hits = 0;     // found encoded, or being encoded for somebody else
    int64_t images_encoded = 0;
    int64_t steps = 0;
    int64_t step_tokens = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  // scheduler.cpp: requests, blocks
  int32_t blocks_for(int32_t n_tokens) const;
  void fork_choices(RequestState& request);
  void publish_blocks(Sequence& sequence);
  void gather_block(const Sequence& sequence, int32_t block);
  bool adopt_cached_block(Sequence& sequence);
  int32_t cached_prefix(const Sequence& sequence, bool held_only);
  void release_blocks(Sequence& sequence);
  void complete_item(const StepOrder::Item& item, int32_t token);
  void end_request(RequestState& request);
  void reap_cancelled();
  static bool in_flight(const RequestState& request);

  // scheduler_step.cpp: the next step
  void plan_decodes(StepOrder& order);
  void plan_prefills(StepOrder& order);
  void admit(StepOrder& order);
  bool can_admit(const Sequence& sequence);
  bool make_way(StepOrder& order, const Sequence& sequence);
  void plan_prefill(StepOrder& order, Sequence& sequence);
  int32_t runnable_end(const Sequence& sequence) const;
  bool has_room(const StepOrder& order) const;
  bool grow(StepOrder& order, Sequence& sequence, int32_t n_tokens);
  bool preempt_after(StepOrder& order, const Sequence& sequence);
  void preempt(StepOrder& order, Sequence& sequence);

  // scheduler_encode.cpp: pictures
  int32_t needed_from(const Sequence& sequence) const;
  int32_t needed_from(const RequestState& request) const;
  void link_slots();
  void link_slots(RequestState& request);
  void drop_passed_slots(RequestState& request);
  void drop_slots(RequestState& request);
  void collect_pictures(EncodeOrder& order);
  bool collect_pictures(const RequestState& request, EncodeOrder& order);
  bool reserve(EncodeOrder& order);
  bool take_from_younger(const EncodeOrder::Item& item);
  void fail_slot(SlotId slot, std::vector<RequestId>& failed);
  EncodeOrder take_encode(uint64_t order_id);

  // scheduler_moves.cpp: requests that come from and go to other units
  std::unique_ptr<RequestState> remove(RequestId id);
  void enlist(std::unique_ptr<RequestState> request);

  void insert_by_arrival(RequestState& request);
  void remove_from_lists(const RequestState& request);
  static void insert_sorted(std::vector<Sequence*>& list, Sequence& sequence);

  SchedulerConfig config_;
  BlockPool pool_;
  EmbeddingSlots slots_;
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests_;
  std::vector<RequestState*> by_arrival_;  // all requests that are not cancelled
  std::vector<Sequence*> waiting_;         // by priority
  std::vector<Sequence*> running_;         // by priority
  // Something has happened since link_slots() by which a picture may have a slot to find.
  bool links_stale_ = false;
  uint64_t n_orders_ = 0;
  int32_t step_tokens_max_ = 0;
  int32_t step_seqs_max_ = 0;
  int32_t n_cancelled_ = 0;  // requests that wait for a lane
  int32_t n_unstarted_ = 0;  // requests never admitted: the queue

  bool step_in_flight_ = false;
  std::vector<StepOrder::Item> step_;
  std::vector<uint64_t> admitted_;
  std::vector<EncodeOrder> encodes_;     // with the towers
  std::deque<TransferOrder> transfers_;  // in order; the first n_transfers_out_ are with the lane
  size_t n_transfers_out_ = 0;

  // Work areas, kept to avoid allocation.
  std::vector<int32_t> block_tokens_;
  std::vector<ImagePart> block_images_;
  std::vector<ImageKey> keys_;
  std::vector<SlotId> reserved_;

  Counters counters_;
};

}  // namespace hs
