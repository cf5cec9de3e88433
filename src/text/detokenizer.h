// Tokens to text while they come: never half a character, never a part of a stop string.
// One of each a sequence; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace hs {

// Joined output equals Tokenizer::decode of all ids (as the continuation of a prompt), invalid bytes become U+FFFD.
class Detokenizer {
 public:
  // `tokenizer` must outlive this.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);
  std::string push(int32_t id);  // the text that is certain now; valid UTF-8, often empty
  std::string finish();          // what was held back; incomplete bytes become one U+FFFD

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  bool at_start_ = true;
  std::string pending_;  // bytes of a character that is not complete yet
};

// Holds back the longest suffix that may begin a stop string.
class StopMatcher {
 public:
  struct Output {
    std::string text;      // to be sent
    bool stopped = false;  // a stop string was found; nothing of it or after it is in text
    std::string stop;      // the string that was found
  };
  explicit StopMatcher(std::vector<std::string> stops);  // each not empty
  Output push(std::string_view text);
  std::string finish();  // releases what was held back

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace hs
