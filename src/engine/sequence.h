// What the scheduler knows of a request and of each of its choices: token ids, sizes and hashes, no
// tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/block_pool.h"
#include "engine/embedding_slots.h"

namespace hs {

using RequestId = uint64_t;

// A picture of a prompt and the receive slot that its request holds for it.
struct PromptImage {
  int32_t first = 0;  // index of its first placeholder in the prompt
  ImageKey key;       // key.n_rows placeholders
  SlotId slot = kNoSlot;

  int32_t end() const { return first + key.n_rows; }
};

enum class SequenceState {
  kUnstarted,  // a further choice, until the first one has run the prompt
  kWaiting,    // new or preempted: holds no blocks
  kRunning,    // takes part in steps
  kFinished,
};

struct RequestState;

// One choice: its output, and the KV blocks of its tokens (prompt, then output).
struct Sequence {
  RequestState* request = nullptr;
  int32_t choice = 0;
  SequenceState state = SequenceState::kUnstarted;
  bool in_flight = false;  // part of the step that the lane has
  bool preempted = false;  // at any time
  std::vector<int32_t> outputs;
  std::vector<BlockId>
      blocks;               // block table: covers n_computed tokens and those of the step in flight
  int32_t n_computed = 0;   // tokens whose keys and values stand in the blocks
  int32_t n_published = 0;  // leading blocks that are part of the prefix tree
  PrefixNode node = kPrefixRoot;  // of the last of those

  int32_t n_tokens() const;
  int32_t token(int32_t index) const;
  int32_t remaining() const { return n_tokens() - n_computed; }
};

struct RequestState {
  RequestId id = 0;
  uint64_t arrival = 0;  // what goes first: class of priority, then its turn; lowest first
  // Where its prompts stand in the prefix tree: those of other roots are never found.
  PrefixNode prefix_root = kPrefixRoot;
  bool reads_cache = true;  // false: every token of the prompt is run, for its logits
  std::vector<int32_t> prompt;
  std::vector<PromptImage> images;  // by position
  std::vector<Sequence> choices;    // never resized
  int32_t max_tokens = 0;           // per choice
  int32_t n_unfinished = 0;         // choices
  int32_t cached_hint =
      0;  // leading tokens that were in the prefix cache on arrival; 0 once it has run
  int32_t cached_tokens = 0;  // of the prompt, taken from the prefix cache
  bool lacks_slot = false;    // for a picture that it needs, when the scheduler last looked
  bool started = false;       // has been admitted once
  bool cancelled = false;     // goes when no lane works on it any more

  int32_t n_prompt() const { return static_cast<int32_t>(prompt.size()); }
  // Further choices share the prompt's blocks up to here: full blocks only, and at least one token
  // is left to run.
  int32_t fork_point(int32_t block_size) const {
    return (n_prompt() - 1) / block_size * block_size;
  }
};

// The classes of priority, -kPriorityMax to kPriorityMax, are the high bits of `arrival`, turns
// (base/fair_turns.h) the others.
constexpr int32_t kPriorityMax = 1000;
constexpr int kArrivalBits = 48;
inline uint64_t priority_class(uint64_t arrival) {
  return arrival >> kArrivalBits;
}
inline uint64_t turn_of(uint64_t arrival) {
  return arrival & ((uint64_t{1} << kArrivalBits) - 1);
}

inline int32_t Sequence::n_tokens() const {
  return request->n_prompt() + static_cast<int32_t>(outputs.size());
}

inline int32_t Sequence::token(int32_t index) const {
  const int32_t n_prompt = request->n_prompt();
  return index < n_prompt ? request->prompt[static_cast<size_t>(index)]
                          : outputs[static_cast<size_t>(index - n_prompt)];
}

// Whether `a` goes before `b`.
inline bool before(const Sequence& a, const Sequence& b) {
  if (a.request->arrival != b.request->arrival) return a.request->arrival < b.request->arrival;
  return a.choice < b.choice;
}

}  // namespace hs
