// Tokens to text while they come: never half a character, never a part of a stop string.
// One of each a sequence; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace hs {

// Joined output equals Tokenizer::decode of all ids, invalid bytes become U+FFFD. One difference:
// where a run of byte tokens (<0xNN>) is invalid anywhere, decode() loses the run's good characters
// too, because the reference does; here they have been sent by then, and each invalid part becomes
// one U+FFFD.
class Detokenizer {
 public:
  // Whether the ids begin a text, so that a SentencePiece-like leading space is dropped (the answer
  // of a chat), or go on with one, so that it is kept (a completion, a continued message).
  enum class Start { kNewText, kContinuation };
  // `tokenizer` must outlive this.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens, Start start = Start::kNewText);
  std::string push(int32_t id);  // the text that is certain now; valid UTF-8, often empty
  std::string finish();          // what was held back; incomplete bytes become one U+FFFD

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  size_t leading_spaces_to_drop_ = 0;
  bool drop_spaces_of_next_token_ = false;
  std::string pending_;  // bytes of a character that is not complete yet
};

// Holds back the longest suffix that may begin a stop string. The stop that is complete first
// counts, of those that end at one place the longest: the output does not depend on how the text is
// cut into pieces. Pieces and stops are whole characters; so is the output then.
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
  std::string held_;      // the end of the text so far: no stop ends in it, one may begin in it
  bool stopped_ = false;  // after a stop there is no more output
};

}  // namespace hs
