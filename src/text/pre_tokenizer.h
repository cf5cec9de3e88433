// The pre-tokenizer of a tokenizer.json: splits a normalised text into the words that are merged on
// their own.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hs {

// A text and its words, in order; what lies in no word is dropped.
struct Words {
  struct Word {
    size_t begin = 0;
    size_t end = 0;
    bool at_start = false;  // begins where the whole input begins (Metaspace's "first")
  };
  std::string text;
  std::vector<Word> words;

  std::string_view word(const Word& w) const {
    return std::string_view(text).substr(w.begin, w.end - w.begin);
  }
};

// Immutable; may be used from any thread.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // REQUIRES: the text is valid UTF-8, and stays so; no word is empty.
  virtual void apply(Words& words) const = 0;
};

// Of the "pre_tokenizer" object: Sequence, Split, ByteLevel, Metaspace, Digits, Punctuation,
// Whitespace, WhitespaceSplit. A component of another type is kUnsupported and named.
Result<std::unique_ptr<PreTokenizer>> parse_pre_tokenizer(const nlohmann::json& json);

}  // namespace hs
