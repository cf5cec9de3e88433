#include "grammar/token_trie.h"

#include <algorithm>

namespace hs {

TokenTrie::TokenTrie(std::span<const std::string> bytes) : bytes_(bytes.begin(), bytes.end()) {
  constexpr size_t kBytesMax = 65'535;
  for (size_t id = 0; id < bytes_.size(); ++id) {
    if (bytes_[id].empty() || bytes_[id].size() > kBytesMax) continue;
    tokens_.push_back(static_cast<int32_t>(id));
    longest_ = std::max(longest_, static_cast<int32_t>(bytes_[id].size()));
  }
  std::ranges::sort(tokens_, {}, [this](int32_t id) { return token_bytes(id); });
  nodes_.push_back({.tokens_end = static_cast<uint32_t>(tokens_.size())});
  below_.emplace_back();
  // Tokens in order, each with the bytes that the one before has not: the nodes of a walk in
  // advance order. `open`: the nodes from the root to the last one made.
  std::vector<uint32_t> open = {0};
  std::string_view last;
  const auto close = [&](size_t depth, size_t n_tokens) {
    while (open.size() > depth + 1) {
      const uint32_t node = open.back();
      open.pop_back();
      nodes_[node].end = static_cast<uint32_t>(nodes_.size());
      nodes_[node].tokens_end = static_cast<uint32_t>(n_tokens);
      below_[open.back()] |= below_[node];
      below_[open.back()].add(nodes_[node].byte);
    }
  };
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view text = token_bytes(tokens_[i]);
    const auto shared = static_cast<size_t>(std::ranges::mismatch(last, text).in1 - last.begin());
    close(shared, i);
    for (size_t depth = shared; depth < text.size(); ++depth) {
      open.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.first_token = static_cast<uint32_t>(i),
                        .own_end = static_cast<uint32_t>(i),
                        .depth = static_cast<uint16_t>(depth + 1),
                        .byte = static_cast<uint8_t>(text[depth])});
      below_.emplace_back();
    }
    nodes_[open.back()].own_end = static_cast<uint32_t>(i + 1);
    last = text;
  }
  close(0, tokens_.size());
  nodes_[0].end = static_cast<uint32_t>(nodes_.size());
}

}  // namespace hs
