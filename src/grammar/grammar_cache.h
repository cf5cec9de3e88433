// The grammars of a model's recent requests: clients ask for the same schema again and again.
//
// Any thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/grammar.h"

namespace hs {

class GrammarCache {
 public:
  static constexpr size_t kGrammarsMax = 16;
  static constexpr int64_t kPrepareMaxUs = 500'000;

  // token_bytes[id] and end_ids: as Grammar::make takes them. drops_space: a blank that begins a
  // text is not shown. The vocabulary is put in order when the first grammar is asked for.
  GrammarCache(std::vector<std::string> token_bytes, std::vector<int32_t> end_ids,
               bool drops_space);

  // The grammar, made and prepared if it is not known; that may take kPrepareMaxUs. begins_text:
  // the output does not go on with a text that is there. It is to be used by the thread that runs
  // the engine, and by no other. Errors: Grammar::make's.
  Result<std::shared_ptr<Grammar>> get(Grammar::Language language, const std::string& text,
                                       bool begins_text);

 private:
  struct Entry {
    Grammar::Language language;
    std::string text;
    bool optional_space;
    std::shared_ptr<Grammar> grammar;
  };
  std::shared_ptr<Grammar> find(Grammar::Language language, const std::string& text,
                                bool optional_space);
  std::shared_ptr<const TokenTrie> vocabulary();

  std::vector<int32_t> end_ids_;
  bool drops_space_;
  std::mutex mutex_;
  std::vector<std::string> token_bytes_;  // until the vocabulary is made
  std::shared_ptr<const TokenTrie> vocabulary_;
  std::list<Entry> entries_;  // the last used first
};

}  // namespace hs
