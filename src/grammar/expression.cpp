#include "grammar/expression.h"

#include <algorithm>

#include "base/check.h"

namespace hs {
namespace {

constexpr Expr kUnknown = -1;
constexpr size_t kFewSteps = 6;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15U + (hash << 6) + (hash >> 2);
  return hash * 0xBF58476D1CE4E5B9U;
}

}  // namespace

size_t ExpressionPool::NodeHash::operator()(const Node& node) const {
  uint64_t hash = mix(static_cast<uint64_t>(node.kind), static_cast<uint32_t>(node.a));
  hash = mix(hash, static_cast<uint32_t>(node.b));
  hash = mix(hash, static_cast<uint32_t>(node.min));
  return mix(hash, static_cast<uint32_t>(node.max));
}

ExpressionPool::ExpressionPool() {
  intern({.kind = Kind::kNoString});
  intern({.kind = Kind::kEmptyString});
}

// `node` is new or known by its fields; has_empty is no part of what it is.
Expr ExpressionPool::intern(const Node& node) {
  const auto [at, is_new] = known_.try_emplace(node, static_cast<Expr>(nodes_.size()));
  if (is_new) {
    nodes_.push_back(node);
    steps_.emplace_back();
    bytes_ += 2 * sizeof(Node) + sizeof(Steps) + 32;
  }
  return at->second;
}

Expr ExpressionPool::one_of(const ByteSet& bytes) {
  if (bytes.empty()) return kNoText;
  uint64_t hash = 0;
  for (const uint64_t word : bytes.words()) hash = mix(hash, word);
  std::vector<int32_t>& same = known_sets_[hash];
  auto at =
      std::ranges::find_if(same, [&](int32_t i) { return sets_[static_cast<size_t>(i)] == bytes; });
  if (at == same.end()) {
    same.push_back(static_cast<int32_t>(sets_.size()));
    at = same.end() - 1;
    sets_.push_back(bytes);
    bytes_ += sizeof(ByteSet) + 48;
  }
  return intern({.kind = Kind::kBytes, .a = *at});
}

Expr ExpressionPool::literal(std::string_view text) {
  Expr e = kEmptyText;
  for (size_t i = text.size(); i-- > 0;) {
    const auto byte = static_cast<uint8_t>(text[i]);
    e = pair(one_of(ByteSet::range(byte, byte)), e);
  }
  return e;
}

Expr ExpressionPool::pair(Expr head, Expr rest) {
  if (head == kNoText || rest == kNoText) return kNoText;
  if (head == kEmptyText) return rest;
  if (rest == kEmptyText) return head;
  if (nodes_[static_cast<size_t>(head)].kind == Kind::kSequence) {
    // Sequences lean to the right. A loop, since a literal may be long.
    std::vector<Expr> heads;
    while (nodes_[static_cast<size_t>(head)].kind == Kind::kSequence) {
      heads.push_back(nodes_[static_cast<size_t>(head)].a);
      head = nodes_[static_cast<size_t>(head)].b;
    }
    heads.push_back(head);
    for (size_t i = heads.size(); i-- > 0;) rest = pair(heads[i], rest);
    return rest;
  }
  return intern({.kind = Kind::kSequence, .a = head, .b = rest});
}

Expr ExpressionPool::sequence(std::span<const Expr> parts) {
  Expr e = kEmptyText;
  for (size_t i = parts.size(); i-- > 0;) e = pair(parts[i], e);
  return e;
}

std::span<const Expr> ExpressionPool::options_of(const Node& node) const {
  return std::span(option_lists_).subspan(static_cast<size_t>(node.a), static_cast<size_t>(node.b));
}

// Options without options inside; single bytes are gathered in a set.
void ExpressionPool::flatten(Expr e, std::vector<Expr>& options, ByteSet& bytes) const {
  const Node& node = nodes_[static_cast<size_t>(e)];
  if (node.kind == Kind::kBytes) {
    bytes |= sets_[static_cast<size_t>(node.a)];
  } else if (node.kind == Kind::kEither) {
    for (const Expr option : options_of(node)) flatten(option, options, bytes);
  } else if (e != kNoText) {
    options.push_back(e);
  }
}

Expr ExpressionPool::either(std::span<const Expr> given) {
  std::vector<Expr> sorted;
  ByteSet bytes;
  for (const Expr e : given) flatten(e, sorted, bytes);
  if (!bytes.empty()) sorted.push_back(one_of(bytes));
  std::ranges::sort(sorted);
  const auto repeated = std::ranges::unique(sorted);
  sorted.erase(repeated.begin(), repeated.end());
  return factored(sorted);
}

// Options that end alike are one sequence: (a T | b T | T) is (a | b | empty) T. So equal states of
// a matcher become one node.
Expr ExpressionPool::factored(std::vector<Expr>& sorted) {
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Node& node = nodes_[static_cast<size_t>(sorted[i])];
    if (node.kind != Kind::kSequence) continue;
    const Expr rest = node.b;
    std::vector<Expr> heads, others;
    for (const Expr e : sorted) {
      const Node& option = nodes_[static_cast<size_t>(e)];
      if (e == rest) {
        heads.push_back(kEmptyText);
      } else if (option.kind == Kind::kSequence && option.b == rest) {
        heads.push_back(option.a);
      } else {
        others.push_back(e);
      }
    }
    if (heads.size() < 2) continue;
    others.push_back(pair(either(heads), rest));
    return either(others);
  }
  return options(std::move(sorted));
}

Expr ExpressionPool::options(std::vector<Expr> sorted) {
  if (sorted.empty()) return kNoText;
  if (sorted.size() == 1) return sorted.front();
  uint64_t hash = 0;
  for (const Expr e : sorted) hash = mix(hash, static_cast<uint32_t>(e));
  std::vector<Expr>& same = known_options_[hash];
  for (const Expr e : same) {
    if (std::ranges::equal(options_of(nodes_[static_cast<size_t>(e)]), sorted)) return e;
  }
  const Node node{.kind = Kind::kEither,
                  .a = static_cast<int32_t>(option_lists_.size()),
                  .b = static_cast<int32_t>(sorted.size())};
  option_lists_.insert(option_lists_.end(), sorted.begin(), sorted.end());
  bytes_ += sorted.size() * sizeof(Expr) + 64;
  same.push_back(intern(node));
  return same.back();
}

Expr ExpressionPool::repeat(Expr inner, int32_t min, int32_t max) {
  HS_CHECK_GE(min, 0);
  HS_CHECK(max == kUnlimited || min <= max);
  if (inner == kEmptyText || max == 0) return kEmptyText;
  if (inner == kNoText) return min == 0 ? kEmptyText : kNoText;
  if (min == 1 && max == 1) return inner;
  return intern({.kind = Kind::kRepeat, .a = inner, .min = min, .max = max});
}

Expr ExpressionPool::except(Expr a, Expr b) {
  if (a == kNoText || a == b) return kNoText;
  if (b == kNoText) return a;
  if (a == kEmptyText) return has_empty(b) ? kNoText : kEmptyText;
  return intern({.kind = Kind::kExcept, .a = a, .b = b});
}

Expr ExpressionPool::new_rule() {
  rule_bodies_.push_back(kUnknown);
  return intern({.kind = Kind::kRule, .a = static_cast<int32_t>(rule_bodies_.size()) - 1});
}

void ExpressionPool::define(Expr rule, Expr body) {
  const Node& node = nodes_[static_cast<size_t>(rule)];
  HS_CHECK(node.kind == Kind::kRule);
  HS_CHECK_EQ(rule_bodies_[static_cast<size_t>(node.a)], kUnknown);
  rule_bodies_[static_cast<size_t>(node.a)] = body;
}

bool ExpressionPool::begins_with_itself(Expr rule) {
  std::unordered_set<Expr> visited;
  const Node& node = nodes_[static_cast<size_t>(rule)];
  return reaches_unread(rule_bodies_[static_cast<size_t>(node.a)], rule, visited);
}

bool ExpressionPool::reaches_unread(Expr e, Expr rule, std::unordered_set<Expr>& visited) {
  if (e == rule) return true;
  if (!visited.insert(e).second) return false;
  const Node node = nodes_[static_cast<size_t>(e)];
  switch (node.kind) {
    case Kind::kNoString:
    case Kind::kEmptyString:
    case Kind::kBytes:
      return false;
    case Kind::kSequence:
      return reaches_unread(node.a, rule, visited) ||
             (has_empty(node.a) && reaches_unread(node.b, rule, visited));
    case Kind::kEither:
      return std::ranges::any_of(
          options_of(node), [&](Expr option) { return reaches_unread(option, rule, visited); });
    case Kind::kRepeat:
    case Kind::kExcept:
      return reaches_unread(node.a, rule, visited);
    case Kind::kRule:
      return reaches_unread(rule_bodies_[static_cast<size_t>(node.a)], rule, visited);
  }
  return false;
}

bool ExpressionPool::has_empty(Expr e) {
  const Node node = nodes_[static_cast<size_t>(e)];
  if (node.has_empty >= 0) return node.has_empty != 0;
  bool result = false;
  switch (node.kind) {
    case Kind::kNoString:
    case Kind::kBytes:
      break;
    case Kind::kEmptyString:
      result = true;
      break;
    case Kind::kSequence:
      result = has_empty(node.a) && has_empty(node.b);
      break;
    case Kind::kEither:
      for (const Expr option : options_of(node)) result = result || has_empty(option);
      break;
    case Kind::kRepeat:
      result = node.min == 0 || has_empty(node.a);
      break;
    case Kind::kExcept:
      result = has_empty(node.a) && !has_empty(node.b);
      break;
    case Kind::kRule:
      HS_CHECK(rule_bodies_[static_cast<size_t>(node.a)] != kUnknown);
      nodes_[static_cast<size_t>(e)].has_empty = 0;  // where it asks for itself
      result = has_empty(rule_bodies_[static_cast<size_t>(node.a)]);
      break;
  }
  nodes_[static_cast<size_t>(e)].has_empty = result ? 1 : 0;
  return result;
}

Expr ExpressionPool::derivative(Expr e, uint8_t byte) {
  if (e <= kEmptyText) return kNoText;
  const Steps& steps = steps_[static_cast<size_t>(e)];
  if (steps.all) {
    const Expr known = (*steps.all)[byte];
    if (known != kUnknown) return known;
  } else {
    for (const auto& [b, next] : steps.few) {
      if (b == byte) return next;
    }
  }
  const Expr next = derive(e, byte);
  remember(e, byte, next);
  return next;
}

void ExpressionPool::remember(Expr e, uint8_t byte, Expr next) {
  Steps& steps = steps_[static_cast<size_t>(e)];
  if (!steps.all && steps.few.size() < kFewSteps) {
    if (steps.few.empty()) bytes_ += kFewSteps * sizeof steps.few[0] + 16;
    steps.few.emplace_back(byte, next);
    return;
  }
  if (!steps.all) {
    steps.all = std::make_unique<std::array<Expr, 256>>();
    steps.all->fill(kUnknown);
    bytes_ += sizeof *steps.all;
    for (const auto& [b, known] : steps.few) (*steps.all)[b] = known;
    steps.few = {};
  }
  (*steps.all)[byte] = next;
}

Expr ExpressionPool::derive(Expr e, uint8_t byte) {
  const Node node = nodes_[static_cast<size_t>(e)];  // a copy: nodes_ grows meanwhile
  switch (node.kind) {
    case Kind::kNoString:
    case Kind::kEmptyString:
      return kNoText;
    case Kind::kBytes:
      return sets_[static_cast<size_t>(node.a)].has(byte) ? kEmptyText : kNoText;
    case Kind::kSequence: {
      const Expr through_head = pair(derivative(node.a, byte), node.b);
      if (!has_empty(node.a)) return through_head;
      return either({through_head, derivative(node.b, byte)});
    }
    case Kind::kEither: {
      const std::span<const Expr> all = options_of(node);
      std::vector<Expr> next(all.begin(), all.end());
      for (Expr& option : next) option = derivative(option, byte);
      return either(next);
    }
    case Kind::kRepeat: {
      const Expr first = derivative(node.a, byte);
      if (first == kNoText) return kNoText;
      const int32_t max = node.max == kUnlimited ? kUnlimited : node.max - 1;
      return pair(first, repeat(node.a, std::max(node.min - 1, 0), max));
    }
    case Kind::kExcept:
      return except(derivative(node.a, byte), derivative(node.b, byte));
    case Kind::kRule:
      HS_CHECK(rule_bodies_[static_cast<size_t>(node.a)] != kUnknown);
      return derivative(rule_bodies_[static_cast<size_t>(node.a)], byte);
  }
  return kNoText;
}

std::pair<Expr, Expr> ExpressionPool::head_and_rest(Expr e) const {
  const Node& node = nodes_[static_cast<size_t>(e)];
  if (node.kind == Kind::kSequence) return {node.a, node.b};
  return {e, kEmptyText};
}

Expr ExpressionPool::with_counts_up_to(Expr e, int32_t bytes_max) {
  constexpr int kParts = 4;
  std::vector<Expr> heads;
  Expr rest = e;
  bool lowered = false;
  for (int i = 0; i < kParts && rest != kEmptyText; ++i) {
    auto [head, next] = head_and_rest(rest);
    const Node node = nodes_[static_cast<size_t>(head)];
    if (node.kind == Kind::kRepeat && (node.min > bytes_max || node.max > bytes_max)) {
      head = repeat(node.a, std::min(node.min, bytes_max),
                    node.max == kUnlimited ? kUnlimited : std::min(node.max, bytes_max));
      lowered = true;
    }
    heads.push_back(head);
    rest = next;
  }
  if (!lowered) return e;
  for (size_t i = heads.size(); i-- > 0;) rest = pair(heads[i], rest);
  return rest;
}

const ByteSet& ExpressionPool::loop(Expr e) {
  const auto known = loops_.find(e);
  if (known != loops_.end()) return known->second;
  ByteSet set;
  for (int b = 0; b < 256; ++b) {
    if (derivative(e, static_cast<uint8_t>(b)) == e) set.add(static_cast<uint8_t>(b));
  }
  bytes_ += sizeof(ByteSet) + 32;
  return loops_.emplace(e, set).first->second;
}

}  // namespace hs
