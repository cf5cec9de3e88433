// The next step: decode tokens first, then prefill chunks, then new requests, up to the token
// budget.
#include <algorithm>

#include "base/check.h"
#include "engine/scheduler.h"

namespace hs {
namespace {

// A sequence whose prompt has been run and that has one token to run.
bool decodes(const Sequence& sequence) {
  return sequence.remaining() == 1 && sequence.n_computed >= sequence.request->n_prompt();
}

}  // namespace

bool Scheduler::next_step(StepOrder& order) {
  order.items.clear();
  order.n_tokens = 0;
  admitted_.clear();
  if (step_in_flight_) return false;
  if (config_.decodes) plan_decodes(order);
  plan_prefills(order);
  admit(order);
  if (order.items.empty()) return false;

  order.id = ++n_orders_;
  step_in_flight_ = true;
  step_.assign(order.items.begin(), order.items.end());
  for (const StepOrder::Item& item : step_) {
    RequestState& request = *item.sequence->request;
    request.choices[static_cast<size_t>(item.sequence->choice)].in_flight = true;
  }
  ++counters_.steps;
  counters_.step_tokens += order.n_tokens;
  return true;
}

void Scheduler::limit_steps(int32_t max_tokens, int32_t max_seqs) {
  step_tokens_max_ = std::clamp(max_tokens, 1, config_.max_num_batched_tokens);
  step_seqs_max_ = std::clamp(max_seqs, 1, config_.max_num_seqs);
}

bool Scheduler::has_room(const StepOrder& order) const {
  return order.n_tokens < step_tokens_max_ &&
         order.items.size() < static_cast<size_t>(step_seqs_max_);
}

// running_ may shrink at its end while this walks over it: victims come after the sequence they
// make room for.
void Scheduler::plan_decodes(StepOrder& order) {
  for (size_t i = 0; i < running_.size() && has_room(order); ++i) {
    Sequence& sequence = *running_[i];
    if (!decodes(sequence)) continue;
    // Without a block it keeps what it has and waits: older sequences take theirs when they need
    // to.
    if (!grow(order, sequence, sequence.n_tokens())) continue;
    order.items.push_back({&sequence, sequence.n_computed, 1, true});
    ++order.n_tokens;
  }
}

void Scheduler::plan_prefills(StepOrder& order) {
  for (size_t i = 0; i < running_.size() && has_room(order); ++i) {
    if (!decodes(*running_[i])) plan_prefill(order, *running_[i]);
  }
}

// One past the last token that can be run now: the end, or the first picture row that has not
// arrived.
int32_t Scheduler::runnable_end(const Sequence& sequence) const {
  for (const PromptImage& image : sequence.request->images) {
    if (image.end() <= sequence.n_computed) continue;
    if (image.slot == kNoSlot || !slots_.arrived(image.slot)) {
      return config_.overlap ? std::max(image.first, sequence.n_computed) : sequence.n_computed;
    }
  }
  return sequence.n_tokens();
}

void Scheduler::plan_prefill(StepOrder& order, Sequence& sequence) {
  bool adopted = false;
  while (adopt_cached_block(sequence)) adopted = true;
  if (adopted && !sequence.request->images.empty()) {
    links_stale_ = true;
    drop_passed_slots(*sequence.request);
  }

  const int32_t first = sequence.n_computed;
  const int32_t budget = step_tokens_max_ - order.n_tokens;
  int32_t end = std::min(runnable_end(sequence), first + budget);
  if (end <= first) return;
  if (!grow(order, sequence, end)) {
    end = std::min(end, static_cast<int32_t>(sequence.blocks.size()) * config_.block_size);
  }
  if (end <= first) return;
  order.items.push_back({&sequence, first, end - first, end == sequence.n_tokens()});
  order.n_tokens += end - first;
}

// Extends the block table to n_tokens, at the cost of younger sequences. On false some blocks may
// have been added.
bool Scheduler::grow(StepOrder& order, Sequence& sequence, int32_t n_tokens) {
  const auto n_blocks = static_cast<size_t>(blocks_for(n_tokens));
  while (sequence.blocks.size() < n_blocks) {
    const BlockId block = pool_.allocate();
    if (block != kNoBlock) {
      sequence.blocks.push_back(block);
    } else if (!preempt_after(order, sequence)) {
      return false;
    }
  }
  return true;
}

// Always the youngest, even if it has no blocks yet: whoever runs is older than whoever waits, so
// the oldest of all never waits for somebody who cannot go on.
bool Scheduler::preempt_after(StepOrder& order, const Sequence& sequence) {
  Sequence& victim = *running_.back();
  if (&victim == &sequence || before(victim, sequence)) return false;
  preempt(order, victim);
  return true;
}

void Scheduler::preempt(StepOrder& order, Sequence& sequence) {
  std::erase_if(order.items, [&](const StepOrder::Item& item) {
    if (item.sequence != &sequence) return false;
    order.n_tokens -= item.count;
    return true;
  });
  std::erase(running_, &sequence);
  release_blocks(sequence);
  sequence.state = SequenceState::kWaiting;
  sequence.preempted = true;
  links_stale_ = true;
  insert_sorted(waiting_, sequence);
  ++counters_.preemptions;
}

// A waiting sequence of a better class takes the place of the youngest that runs. It might hold
// receive slots that those wait for, so that nobody could go on otherwise.
bool Scheduler::make_way(StepOrder& order, const Sequence& sequence) {
  while (!can_admit(sequence)) {
    Sequence& victim = *running_.back();
    if (priority_class(sequence.request->arrival) >= priority_class(victim.request->arrival)) {
      return false;
    }
    preempt(order, victim);
  }
  return true;
}

// In the order of places: nobody passes the head of the queue.
void Scheduler::admit(StepOrder& order) {
  while (!waiting_.empty() && has_room(order) && make_way(order, *waiting_.front())) {
    Sequence& sequence = *waiting_.front();
    waiting_.erase(waiting_.begin());
    sequence.state = SequenceState::kRunning;
    insert_sorted(running_, sequence);
    RequestState& request = *sequence.request;
    links_stale_ |= request.cached_hint > 0;
    request.cached_hint = 0;
    if (!request.started) {
      request.started = true;
      admitted_.push_back(request.arrival);
      --n_unstarted_;
      counters_.prefix_queries += config_.prefix_cache ? request.n_prompt() : 0;
    }
    plan_prefill(order, sequence);
  }
}

// A sequence is let in when all its known tokens fit beside what the running ones still need for
// theirs, and one block for each of them to grow into; so a preempted sequence does not come back
// only to be preempted again.
bool Scheduler::can_admit(const Sequence& sequence) {
  if (running_.empty()) return true;
  int32_t n_active = 0;
  int64_t promised = 0;
  for (const Sequence* other : running_) {
    const auto held = static_cast<int32_t>(other->blocks.size());
    promised += std::max(0, blocks_for(other->n_tokens()) - held) + 1;
    if (runnable_end(*other) > other->n_computed) ++n_active;  // not waiting for a picture
  }
  if (n_active >= config_.max_num_seqs) return false;
  const int64_t spare = pool_.n_available() - promised;
  const int64_t needed = blocks_for(sequence.n_tokens());
  if (needed <= spare) return true;
  if (spare < 0) return false;
  return needed - cached_prefix(sequence, true) / config_.block_size <= spare;
}

}  // namespace hs
