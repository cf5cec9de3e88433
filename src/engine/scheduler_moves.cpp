// Requests that leave for another unit, and those that come from one: with their tokens alone, to
// be run again, or with their keys and values.
#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "engine/scheduler.h"

namespace hs {

const RequestState* Scheduler::oldest_untouched() const {
  for (const RequestState* request : by_arrival_) {
    const bool untouched = std::ranges::all_of(request->choices, [](const Sequence& sequence) {
      return sequence.n_computed == 0 && !sequence.in_flight && sequence.outputs.empty();
    });
    if (!untouched) continue;
    if (std::ranges::all_of(request->images,
                            [](const PromptImage& image) { return image.slot == kNoSlot; })) {
      return request;
    }
  }
  return nullptr;
}

bool Scheduler::prompt_done(const RequestState& request) const {
  return std::ranges::all_of(request.choices, [&](const Sequence& sequence) {
    if (sequence.state == SequenceState::kFinished) return true;
    return sequence.state == SequenceState::kRunning && !sequence.in_flight &&
           sequence.n_computed >= request.n_prompt();
  });
}

bool Scheduler::can_take(RequestId id) const {
  const RequestState* state = request(id);
  return state != nullptr && !state->cancelled && !in_flight(*state);
}

// Out of all lists, with its blocks and slots.
std::unique_ptr<RequestState> Scheduler::remove(RequestId id) {
  const auto it = requests_.find(id);
  HS_CHECK(it != requests_.end());
  std::unique_ptr<RequestState> request = std::move(it->second);
  HS_CHECK(!request->cancelled && !in_flight(*request));
  requests_.erase(it);
  remove_from_lists(*request);
  if (!request->started) --n_unstarted_;
  return request;
}

std::unique_ptr<RequestState> Scheduler::take(RequestId id) {
  std::unique_ptr<RequestState> request = remove(id);
  for (Sequence& sequence : request->choices) {
    sequence.preempted |= sequence.n_computed > 0;
    release_blocks(sequence);
    if (sequence.state == SequenceState::kRunning) sequence.state = SequenceState::kWaiting;
  }
  drop_slots(*request);
  return request;
}

void Scheduler::enlist(std::unique_ptr<RequestState> request) {
  RequestState* state = request.get();
  if (!state->started) ++n_unstarted_;
  insert_by_arrival(*state);
  links_stale_ = true;
  requests_.emplace(state->id, std::move(request));
}

void Scheduler::give(std::unique_ptr<RequestState> request) {
  for (Sequence& sequence : request->choices) {
    if (sequence.state == SequenceState::kWaiting) insert_sorted(waiting_, sequence);
  }
  Sequence& first = request->choices.front();
  request->cached_hint = request->started ? 0 : cached_prefix(first, false);
  enlist(std::move(request));
}

std::unique_ptr<RequestState> Scheduler::take_with_blocks(RequestId id,
                                                          std::vector<BlockId>& held) {
  std::unique_ptr<RequestState> request = remove(id);
  drop_slots(*request);
  held.clear();
  for (const Sequence& sequence : request->choices) {
    held.insert(held.end(), sequence.blocks.begin(), sequence.blocks.end());
  }
  return request;
}

// The last block goes first, as in release_blocks().
void Scheduler::release_moved(std::span<const BlockId> held) {
  for (size_t i = held.size(); i-- > 0;) pool_.release(held[i]);
}

bool Scheduler::reserve_moved(RequestState& request, std::vector<KvMove>& moves) {
  moves.clear();
  std::unordered_map<BlockId, size_t> move_of;  // by block there
  for (const Sequence& sequence : request.choices) {
    for (size_t i = 0; i < sequence.blocks.size(); ++i) {
      const auto first = static_cast<int32_t>(i) * config_.block_size;
      const int32_t n_rows = std::clamp(sequence.n_computed - first, 0, config_.block_size);
      const auto [it, is_new] = move_of.try_emplace(sequence.blocks[i], moves.size());
      if (is_new) moves.push_back({.from = sequence.blocks[i], .to = kNoBlock, .n_rows = 0});
      moves[it->second].n_rows = std::max(moves[it->second].n_rows, n_rows);
    }
  }
  // Everybody keeps one block to grow into, unless nobody else is here.
  const auto needed = std::ssize(moves) + std::ssize(request.choices) + std::ssize(running_);
  if (pool_.n_held() > 0 && needed > pool_.n_available()) return false;
  if (std::ssize(moves) > pool_.n_available()) return false;
  for (KvMove& move : moves) move.to = pool_.allocate();
  std::vector<bool> has_owner(moves.size(), false);
  for (Sequence& sequence : request.choices) {
    for (BlockId& block : sequence.blocks) {
      const size_t index = move_of.at(block);
      block = moves[index].to;
      if (has_owner[index]) pool_.add_ref(block);
      has_owner[index] = true;
    }
    sequence.n_published = 0;
    sequence.node = request.prefix_root;
  }
  std::erase_if(moves, [](const KvMove& move) { return move.n_rows == 0; });
  return true;
}

void Scheduler::adopt(std::unique_ptr<RequestState> request) {
  for (Sequence& sequence : request->choices) {
    if (sequence.state != SequenceState::kRunning) continue;
    insert_sorted(running_, sequence);
  }
  RequestState& state = *request;
  enlist(std::move(request));
  for (Sequence& sequence : state.choices) {
    if (sequence.state == SequenceState::kRunning) publish_blocks(sequence);
  }
}

void Scheduler::drop_moved(RequestState& request) {
  for (Sequence& sequence : request.choices) release_blocks(sequence);
}

}  // namespace hs
