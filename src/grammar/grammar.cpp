#include "grammar/grammar.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <unordered_set>

namespace hs {
namespace {

constexpr size_t kBytesMax = size_t{32} << 20;      // of expressions
constexpr size_t kMaskBytesMax = size_t{32} << 20;  // of its masks: then they are found anew
constexpr size_t kExitsMax = 20'000;
constexpr uint32_t kWorthALoop = 64;  // tokens below a node, to find a state's loop for

}  // namespace

Result<std::shared_ptr<Grammar>> Grammar::make(std::shared_ptr<const TokenTrie> vocabulary,
                                               std::vector<int32_t> end_ids, Language language,
                                               std::string_view text, bool optional_space) {
  ExpressionPool pool;
  const Result<Expr> parsed = parse_language(pool, language, text);
  if (!parsed) return std::unexpected(parsed.error());
  if (*parsed == kNoText) return fail(ErrorKind::kInvalidArgument, "Nothing satisfies this.");
  if (pool.bytes() > kBytesMax / 2)
    return fail(ErrorKind::kInvalidArgument, "This describes too many different texts.");
  const Expr start =
      optional_space ? pool.sequence({pool.optional(pool.literal(" ")), *parsed}) : *parsed;
  return std::shared_ptr<Grammar>(
      new Grammar(std::move(vocabulary), std::move(end_ids), std::move(pool), start));
}

Grammar::Grammar(std::shared_ptr<const TokenTrie> vocabulary, std::vector<int32_t> end_ids,
                 ExpressionPool pool, Expr start)
    : vocabulary_(std::move(vocabulary)),
      end_ids_(std::move(end_ids)),
      pool_(std::move(pool)),
      start_(start),
      states_by_depth_(static_cast<size_t>(vocabulary_->longest()) + 1) {}

Expr Grammar::after(Expr state, int32_t token) {
  if (std::ranges::find(end_ids_, token) != end_ids_.end()) return state;
  if (token < 0 || token >= vocabulary_->vocabulary_size()) return kNoText;
  const std::string_view bytes = vocabulary_->token_bytes(token);
  if (bytes.empty()) return kNoText;
  for (const char c : bytes) state = pool_.derivative(state, static_cast<uint8_t>(c));
  return state;
}

void Grammar::allow(uint32_t first, uint32_t end, TokenMask& mask) const {
  for (uint32_t i = first; i < end; ++i) {
    const auto id = static_cast<uint32_t>(vocabulary_->tokens()[i]);
    mask.words[id / 32] |= uint32_t{1} << (id % 32);
  }
}

void Grammar::walk(uint32_t from, Expr state, TokenMask& mask, HeadWalk* exits) {
  const std::vector<TokenTrie::Node>& nodes = vocabulary_->nodes();
  const uint16_t from_depth = nodes[from].depth;
  states_by_depth_[from_depth] = state;
  for (uint32_t i = from + 1; i < nodes[from].end;) {
    const TokenTrie::Node& node = nodes[i];
    const Expr next = pool_.derivative(states_by_depth_[node.depth - 1U], node.byte);
    if (next == kNoText) {
      i = node.end;
      continue;
    }
    allow(node.first_token, node.own_end, mask);
    const bool has_children = node.end > i + 1;
    if (has_children && exits != nullptr && pool_.has_empty(next)) {
      exits->exits.push_back(i);
      if (exits->exits.size() > kExitsMax) {
        exits->too_many_exits = true;
        return;
      }
    }
    const bool may_loop = has_children && next > kEmptyText &&
                          (exits == nullptr || !pool_.has_empty(next)) &&
                          (node.tokens_end - node.own_end > kWorthALoop || pool_.knows_loop(next));
    if (may_loop && pool_.loop(next).contains(vocabulary_->bytes_below(i))) {
      allow(node.own_end, node.tokens_end, mask);
      i = node.end;
      continue;
    }
    states_by_depth_[node.depth] = next;
    ++i;
  }
}

const Grammar::HeadWalk& Grammar::head_walk(Expr head) {
  const auto known = head_walks_.find(head);
  if (known != head_walks_.end()) return known->second;
  HeadWalk made;
  made.mask.words.resize((static_cast<size_t>(vocabulary_->vocabulary_size()) + 31) / 32);
  if (pool_.has_empty(head)) made.exits.push_back(0);
  walk(0, head, made.mask, &made);
  mask_bytes_ += made.mask.words.size() * sizeof(uint32_t) + made.exits.size() * sizeof(uint32_t);
  return head_walks_.emplace(head, std::move(made)).first->second;
}

void Grammar::add_state(Expr state, TokenMask& mask) {
  const auto [head, rest] = pool_.head_and_rest(state);
  if (rest == kEmptyText) return walk(0, state, mask, nullptr);
  const HeadWalk& walked = head_walk(head);
  if (walked.too_many_exits) return walk(0, state, mask, nullptr);
  for (size_t i = 0; i < mask.words.size(); ++i) mask.words[i] |= walked.mask.words[i];
  for (const uint32_t exit : walked.exits) walk(exit, rest, mask, nullptr);
}

Result<std::shared_ptr<const TokenMask>> Grammar::mask(Expr state) {
  const Expr key = pool_.with_counts_up_to(state, vocabulary_->longest());
  if (const auto known = masks_.find(key); known != masks_.end()) return known->second;
  if (mask_bytes_ > kMaskBytesMax) {
    masks_.clear();
    head_walks_.clear();
    mask_bytes_ = 0;
  }
  auto made = std::make_shared<TokenMask>();
  made->words.resize((static_cast<size_t>(vocabulary_->vocabulary_size()) + 31) / 32);
  add_state(key, *made);
  if (pool_.has_empty(key)) {
    for (const int32_t id : end_ids_) {
      if (id >= 0 && id < vocabulary_->vocabulary_size())
        made->words[static_cast<size_t>(id) / 32] |= uint32_t{1} << (id % 32);
    }
  }
  if (pool_.bytes() > kBytesMax) {
    return fail(ErrorKind::kResourceExhausted,
                "The grammar of this request takes too much memory.");
  }
  mask_bytes_ += made->words.size() * sizeof(uint32_t) + sizeof(TokenMask);
  masks_.emplace(key, made);
  return made;
}

void Grammar::prepare(int64_t time_max_us) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(time_max_us);
  std::deque<Expr> open = {start_};
  std::unordered_set<Expr> seen = {start_};
  while (!open.empty() && std::chrono::steady_clock::now() < end &&
         mask_bytes_ < kMaskBytesMax / 2) {
    const Expr state = open.front();
    open.pop_front();
    if (!mask(state)) return;
    for (int byte = 0; byte < 256; ++byte) {
      const Expr next = pool_.with_counts_up_to(pool_.derivative(state, static_cast<uint8_t>(byte)),
                                                vocabulary_->longest());
      if (next != kNoText && seen.insert(next).second) open.push_back(next);
    }
  }
}

}  // namespace hs
