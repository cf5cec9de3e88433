// Which tokens a request's settings make likelier, allow or forbid at each place of its output.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sequence.h"
#include "kernels/sampling.h"

namespace hs {

// Of one request, the same for all its choices. Immutable.
struct TokenRules {
  std::vector<TokenBias> biases;
  std::vector<uint32_t> allowed;  // as SamplingRow::allowed; empty: all
  std::vector<int32_t> end_ids;   // not sampled among the first min_tokens
  int32_t min_tokens = 0;
  std::vector<std::vector<int32_t>> bad_words;  // none empty

  bool empty() const {
    return biases.empty() && allowed.empty() && min_tokens == 0 && bad_words.empty();
  }
  // Sets one bit of `allowed` for each id. REQUIRES: 0 <= id < vocab.
  void allow(const std::vector<int32_t>& ids, int32_t vocab);
  // Appends the ids that must not come next: what would end the choice too early, and what would
  // complete a bad word.
  void append_banned(const Sequence& sequence, std::vector<int32_t>& out) const;
};

}  // namespace hs
