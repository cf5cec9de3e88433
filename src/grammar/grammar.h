// Which tokens may come next so that a text stays inside a language.
//
// A Grammar is a language over the tokens of one vocabulary. The state of a text is an expression
// (grammar/expression.h): what may still follow. The tokens allowed in a state are found by walking
// the vocabulary's trie once, and then remembered: a JSON text comes back to the same few states
// again and again. A walk is divided: what a state's head allows does not depend on what follows
// the head (so it is the same in all depths of nesting), but for tokens that reach beyond it.
//
// Thread: one at a time. Make it on a worker, then leave it to the thread that runs the matchers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "grammar/expression.h"
#include "grammar/language.h"
#include "grammar/token_trie.h"

namespace hs {

// Bit id % 32 of word id / 32 is set where the token is allowed. Tokens that end a text are allowed
// where the text may end.
struct TokenMask {
  std::vector<uint32_t> words;
  bool has(int32_t id) const { return (words[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0; }
};

class Grammar {
 public:
  using Language = hs::Language;

  // `end_ids`: tokens that end a text. `text`: as parse_language takes it. With `optional_space` a
  // text may begin with a blank, which the detokenizer of some vocabularies drops. Errors: as
  // parse_language.
  static Result<std::shared_ptr<Grammar>> make(std::shared_ptr<const TokenTrie> vocabulary,
                                               std::vector<int32_t> end_ids, Language language,
                                               std::string_view text, bool optional_space);

  // Finds the masks of states that a text is likely to pass, until `time_max_us` are over.
  void prepare(int64_t time_max_us);

  Expr start() const { return start_; }
  // The state after a token; kNoText where it is not allowed. Tokens that end a text leave the
  // state as it is.
  Expr after(Expr state, int32_t token);
  // Errors: kResourceExhausted where the language takes too much memory.
  Result<std::shared_ptr<const TokenMask>> mask(Expr state);
  bool may_end(Expr state) { return pool_.has_empty(state); }
  bool must_end(Expr state) const { return state == kEmptyText; }
  size_t bytes() const { return pool_.bytes() + mask_bytes_; }

 private:
  // What a head allows whatever follows it, and the nodes of the trie where it may be complete.
  struct HeadWalk {
    TokenMask mask;
    std::vector<uint32_t> exits;
    bool too_many_exits = false;
  };

  Grammar(std::shared_ptr<const TokenTrie> vocabulary, std::vector<int32_t> end_ids,
          ExpressionPool pool, Expr start);
  void allow(uint32_t first, uint32_t end, TokenMask& mask) const;
  // From the children of `from`, which is reached in `state`. `exits` (may be null) gets the nodes
  // below where the expression has the empty string.
  void walk(uint32_t from, Expr state, TokenMask& mask, HeadWalk* exits);
  const HeadWalk& head_walk(Expr head);
  void add_state(Expr state, TokenMask& mask);

  std::shared_ptr<const TokenTrie> vocabulary_;
  std::vector<int32_t> end_ids_;
  ExpressionPool pool_;
  Expr start_;
  std::unordered_map<Expr, std::shared_ptr<const TokenMask>> masks_;
  std::unordered_map<Expr, HeadWalk> head_walks_;
  std::vector<Expr> states_by_depth_;  // of a walk
  size_t mask_bytes_ = 0;
};

}  // namespace hs
