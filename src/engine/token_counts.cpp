#include "engine/token_counts.h"

#include <algorithm>

namespace hs {

void SequenceTokenCounts::update(const Sequence& sequence) {
  const int32_t n_prompt = sequence.request->n_prompt();
  if (n_seen_ < n_prompt) {
    for (const PromptImage& image : sequence.request->images) {
      for (; n_seen_ < image.first; ++n_seen_) add(sequence.token(n_seen_), false);
      n_seen_ = std::max(n_seen_, image.end());
    }
    for (; n_seen_ < n_prompt; ++n_seen_) add(sequence.token(n_seen_), false);
  }
  for (; n_seen_ < sequence.n_tokens(); ++n_seen_) add(sequence.token(n_seen_), true);
}

void SequenceTokenCounts::add(int32_t id, bool output) {
  const auto [place, is_new] = place_.try_emplace(id, counts_.size());
  if (is_new) counts_.push_back({.id = id, .n_output = 0});
  if (output) ++counts_[place->second].n_output;
}

}  // namespace hs
