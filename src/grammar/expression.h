// Languages of byte strings, as expressions that one takes derivatives of.
//
// The derivative of a language by a byte is what may follow that byte (Brzozowski, "Derivatives of
// Regular Expressions", 1964). Equal expressions are one node, so an expression is the state of a
// matcher, and what stands to the right of its head is the stack of a recursive grammar.
//
// One thread at a time: derivatives are made and remembered when they are first asked for.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "grammar/byte_set.h"

namespace hs {

// An expression of a pool.
using Expr = int32_t;
constexpr Expr kNoText = 0;     // no string
constexpr Expr kEmptyText = 1;  // the empty string alone

class ExpressionPool {
 public:
  static constexpr int32_t kUnlimited = -1;

  ExpressionPool();
  ExpressionPool(ExpressionPool&&) = default;
  ExpressionPool& operator=(ExpressionPool&&) = default;

  Expr one_of(const ByteSet& bytes);
  Expr literal(std::string_view text);
  Expr sequence(std::span<const Expr> parts);
  Expr sequence(std::initializer_list<Expr> parts) { return sequence(std::span(parts)); }
  Expr either(std::span<const Expr> options);
  Expr either(std::initializer_list<Expr> options) { return either(std::span(options)); }
  Expr optional(Expr inner) { return either({inner, kEmptyText}); }
  // min to max times; kUnlimited: no maximum. REQUIRES: 0 <= min, and min <= max where limited.
  Expr repeat(Expr inner, int32_t min, int32_t max);
  Expr any_number_of(Expr inner) { return repeat(inner, 0, kUnlimited); }
  // What is in `a` and not in `b`. REQUIRES: at every point of a string of `a` that can be reached,
  // some string goes on that `b` does not have; what no string can finish is not noticed.
  Expr except(Expr a, Expr b);
  // A language that is told later, so that it may contain itself. It must be told before a
  // derivative is asked for, and may not begin with itself.
  Expr new_rule();
  void define(Expr rule, Expr body);

  // Whether a rule can come back to itself before a byte was read; then no derivative may be asked
  // for.
  bool begins_with_itself(Expr rule);
  bool has_empty(Expr e);  // whether the empty string is in it
  Expr derivative(Expr e, uint8_t byte);
  // A sequence is a head that is no sequence, and the rest; other expressions have the rest
  // kEmptyText.
  std::pair<Expr, Expr> head_and_rest(Expr e) const;
  // The expression with counts of repetitions in its first parts lowered to what strings of up to
  // `bytes_max` bytes can tell from the true ones.
  Expr with_counts_up_to(Expr e, int32_t bytes_max);
  // Bytes by which the derivative is the expression itself.
  const ByteSet& loop(Expr e);
  bool knows_loop(Expr e) const { return loops_.contains(e); }

  // Memory that nodes and derivatives take, about.
  size_t bytes() const { return bytes_; }

 private:
  enum class Kind : uint8_t {
    kNoString,
    kEmptyString,
    kBytes,
    kSequence,
    kEither,
    kRepeat,
    kExcept,
    kRule
  };
  struct Node {
    Kind kind = Kind::kNoString;
    int32_t a = 0;          // kBytes: index of the set; kEither: of the options
    int32_t b = 0;          // kEither: number of options
    int32_t min = 0;        // kRepeat
    int32_t max = 0;        // kRepeat
    int8_t has_empty = -1;  // -1: not known yet
    bool operator==(const Node&) const = default;
  };
  struct NodeHash {
    size_t operator()(const Node& node) const;
  };
  // The derivatives of one expression that were asked for: few in a list, many in a table.
  struct Steps {
    std::vector<std::pair<uint8_t, Expr>> few;
    std::unique_ptr<std::array<Expr, 256>> all;
  };

  Expr intern(const Node& node);
  Expr pair(Expr head, Expr rest);
  Expr options(std::vector<Expr> sorted);
  Expr factored(std::vector<Expr>& sorted);
  bool reaches_unread(Expr e, Expr rule, std::unordered_set<Expr>& visited);
  void flatten(Expr e, std::vector<Expr>& options, ByteSet& bytes) const;
  std::span<const Expr> options_of(const Node& node) const;
  Expr derive(Expr e, uint8_t byte);
  void remember(Expr e, uint8_t byte, Expr next);

  std::vector<Node> nodes_;
  std::vector<ByteSet> sets_;
  std::vector<Expr> option_lists_;
  std::vector<Expr> rule_bodies_;  // indexed by a kRule's a
  std::unordered_map<Node, Expr, NodeHash> known_;
  std::unordered_map<uint64_t, std::vector<int32_t>> known_sets_;  // by hash: indices of sets_
  std::unordered_map<uint64_t, std::vector<Expr>> known_options_;  // by hash: kEither nodes
  std::unordered_map<Expr, ByteSet> loops_;
  std::vector<Steps> steps_;  // one a node
  size_t bytes_ = 0;
};

}  // namespace hs
