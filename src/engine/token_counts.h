// How often each token stands in a sequence, for penalties.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/sequence.h"
#include "kernels/sampling.h"

namespace hs {

// Of one sequence. The loop thread only.
class SequenceTokenCounts {
 public:
  // Takes in the tokens that came since the last call. Image placeholders are left out: they stand
  // for no text. `sequence` is always the same one.
  void update(const Sequence& sequence);

  // Each id once, in the order of first appearance.
  const std::vector<TokenCount>& counts() const { return counts_; }

 private:
  void add(int32_t id, bool output);

  std::vector<TokenCount> counts_;
  std::unordered_map<int32_t, size_t> place_;  // id -> index in counts_
  int32_t n_seen_ = 0;                         // tokens of the sequence
};

}  // namespace hs
