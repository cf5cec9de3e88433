#include "engine/token_rules.h"

#include <algorithm>

namespace hs {

void TokenRules::allow(const std::vector<int32_t>& ids, int32_t vocab) {
  constexpr int32_t kBits = 32;
  allowed.assign(static_cast<size_t>((vocab + kBits - 1) / kBits), 0U);
  for (const int32_t id : ids) allowed[static_cast<size_t>(id / kBits)] |= 1U << (id % kBits);
}

void TokenRules::append_banned(const Sequence& sequence, std::vector<int32_t>& out) const {
  if (std::ssize(sequence.outputs) < min_tokens) {
    out.insert(out.end(), end_ids.begin(), end_ids.end());
  }
  // Only the output counts: a client may forbid what its own prompt says.
  for (const std::vector<int32_t>& word : bad_words) {
    const size_t n_before = word.size() - 1;
    if (n_before > sequence.outputs.size()) continue;
    if (std::equal(word.begin(), word.end() - 1,
                   sequence.outputs.end() - static_cast<std::ptrdiff_t>(n_before))) {
      out.push_back(word.back());
    }
  }
}

}  // namespace hs
