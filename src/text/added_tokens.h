// The added tokens of a tokenizer.json: strings that are found in a text before anything else is
// done to it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "text/tokenizer.h"

namespace hs {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;
  bool normalized = false;   // looked for in the normalised text
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool single_word = false;  // not next to a word character
};

// Finds the longest token at each place, from left to right. Immutable; may be used from any
// thread.
class AddedTokenMatcher {
 public:
  // Tokens with empty content are never found; of equal contents the first counts. What is looked
  // for is `content`.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }

  // Calls `piece(token, begin, end)` for consecutive ranges that cover the text; token is null for
  // what lies between tokens. No token is found that touches a byte of `literal` (sorted, not
  // overlapping).
  void split(std::string_view text, std::span<const TextSpan> literal,
             FunctionRef<void(const AddedToken*, size_t, size_t)> piece) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;     // sorted by content
  std::vector<uint32_t> first_index_;  // by first byte: where its tokens begin; 257 entries
};

}  // namespace hs
