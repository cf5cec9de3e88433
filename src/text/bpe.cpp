#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <queue>
#include <utility>

#include "text/json_fields.h"
#include "text/unicode.h"

namespace hs {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: model";
constexpr size_t kShortWord = 32;  // symbols up to which scanning all pairs beats a heap

uint64_t pair_key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

size_t hash_pair(uint64_t key) {
  key *= 0x9E3779B97F4A7C15ULL;
  return static_cast<size_t>(key ^ (key >> 29));
}

}  // namespace

Result<Bpe> Bpe::parse(const nlohmann::json& json, std::span<const std::string> control_tokens) {
  // Files of early versions have no "type".
  if (json_field(json, "type") != nullptr) {
    const auto type = json_string(json, "type", kWhere);
    if (!type) return std::unexpected(type.error());
    if (*type != "BPE")
      return fail(ErrorKind::kUnsupported,
                  fmt::format("{} of type \"{}\" is not supported, only BPE", kWhere, *type));
  }
  Bpe bpe;
  if (auto status = bpe.read_vocabulary(json, control_tokens); !status)
    return std::unexpected(status.error());
  if (auto status = bpe.read_options(json); !status) return std::unexpected(status.error());
  if (auto status = bpe.read_merges(json); !status) return std::unexpected(status.error());
  bpe.index_characters();
  return bpe;
}

Status Bpe::read_vocabulary(const nlohmann::json& json,
                            std::span<const std::string> control_tokens) {
  const nlohmann::json* vocabulary = json_field(json, "vocab");
  if (vocabulary == nullptr || !vocabulary->is_object())
    return fail(ErrorKind::kDataLoss, fmt::format("{}: \"vocab\" must be an object", kWhere));
  ids_.reserve(vocabulary->size());
  for (auto it = vocabulary->begin(); it != vocabulary->end(); ++it) {
    const bool good =
        it->is_number_unsigned() && it->get<uint64_t>() < static_cast<uint64_t>(kTokenIdLimit);
    if (!good)
      return fail(ErrorKind::kDataLoss,
                  fmt::format("{}: the id of \"{}\" must be an integer from 0 to {}", kWhere,
                              it.key(), kTokenIdLimit - 1));
    const auto id = it->get<int32_t>();
    const auto index = static_cast<size_t>(id);
    if (index >= tokens_.size()) tokens_.resize(index + 1);
    if (!tokens_[index].empty())
      return fail(ErrorKind::kDataLoss, fmt::format("{}: \"{}\" and \"{}\" have the same id {}",
                                                    kWhere, tokens_[index], it.key(), id));
    tokens_[index] = it.key();
    ids_.emplace(it.key(), id);
  }
  control_.assign(tokens_.size(), 0);
  for (const std::string& token : control_tokens)
    if (const auto id = id_of(token)) control_[static_cast<size_t>(*id)] = 1;
  return {};
}

Status Bpe::read_options(const nlohmann::json& json) {
  if (const nlohmann::json* dropout = json_field(json, "dropout"); dropout != nullptr)
    if (!dropout->is_number() || dropout->get<double>() != 0.0)
      return fail(ErrorKind::kUnsupported, fmt::format("{}: dropout is not supported", kWhere));
  const auto fuse = json_bool(json, "fuse_unk", false, kWhere);
  if (!fuse) return std::unexpected(fuse.error());
  fuse_unknown_ = *fuse;
  const auto ignore = json_bool(json, "ignore_merges", false, kWhere);
  if (!ignore) return std::unexpected(ignore.error());
  ignore_merges_ = *ignore;
  for (const auto& [key, target] : {std::pair{"continuing_subword_prefix", &prefix_},
                                    std::pair{"end_of_word_suffix", &suffix_}}) {
    if (json_field(json, key) == nullptr) continue;
    auto value = json_string(json, key, kWhere);
    if (!value) return std::unexpected(value.error());
    *target = std::move(*value);
  }
  if (json_field(json, "unk_token") != nullptr) {
    const auto unknown = json_string(json, "unk_token", kWhere);
    if (!unknown) return std::unexpected(unknown.error());
    unknown_id_ = id_of(*unknown).value_or(-1);
  }
  const auto fallback = json_bool(json, "byte_fallback", false, kWhere);
  if (!fallback) return std::unexpected(fallback.error());
  for (unsigned byte = 0; *fallback && byte < 256; ++byte)
    byte_ids_.push_back(id_of(fmt::format("<0x{:02X}>", byte)).value_or(-1));
  return {};
}

Status Bpe::read_merges(const nlohmann::json& json) {
  const nlohmann::json* merges = json_field(json, "merges");
  if (merges == nullptr || !merges->is_array())
    return fail(ErrorKind::kDataLoss, fmt::format("{}: \"merges\" must be an array", kWhere));
  merges_.resize(std::bit_ceil(std::max<size_t>(16, merges->size() * 2)));
  uint32_t rank = 0;
  for (const nlohmann::json& merge : *merges) {
    Status added;
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        return fail(ErrorKind::kDataLoss,
                    fmt::format("{}: merge {} (\"{}\") is not two tokens", kWhere, rank, text));
      const std::string_view view = text;
      added = add_merge(view.substr(0, space), view.substr(space + 1), rank);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      added = add_merge(merge[0].get_ref<const std::string&>(),
                        merge[1].get_ref<const std::string&>(), rank);
    } else {
      added =
          fail(ErrorKind::kDataLoss, fmt::format("{}: merge {} is not two tokens", kWhere, rank));
    }
    if (!added) return added;
    ++rank;
  }
  return {};
}

Status Bpe::add_merge(std::string_view left, std::string_view right, uint32_t rank) {
  const auto out_of_vocabulary = [&](std::string_view token) {
    return fail(ErrorKind::kDataLoss,
                fmt::format("{}: merge {} speaks of \"{}\", which is not in the vocabulary", kWhere,
                            rank, token));
  };
  const auto left_id = id_of(left);
  if (!left_id) return out_of_vocabulary(left);
  const auto right_id = id_of(right);
  if (!right_id) return out_of_vocabulary(right);
  const size_t prefix = std::min(prefix_.size(), right.size());
  const std::string product = std::string(left) + std::string(right.substr(prefix));
  const auto id = id_of(product);
  if (!id) return out_of_vocabulary(product);
  if (control_[static_cast<size_t>(*id)] != 0) return {};
  const uint64_t key = pair_key(*left_id, *right_id);
  size_t slot = hash_pair(key) & (merges_.size() - 1);
  while (merges_[slot].pair != kNoPair && merges_[slot].pair != key)
    slot = (slot + 1) & (merges_.size() - 1);
  merges_[slot] = {key, rank, *id};
  return {};
}

void Bpe::index_characters() {
  character_ids_.assign(0x10000, -1);
  for (size_t id = 0; id < tokens_.size(); ++id) {
    const std::string& token = tokens_[id];
    if (token.empty() || token.size() > 3 || utf8_length(token, 0) != token.size() ||
        control_[id] != 0)
      continue;
    size_t pos = 0;
    character_ids_[next_char(token, pos)] = static_cast<int32_t>(id);
  }
}

std::optional<int32_t> Bpe::id_of(std::string_view token) const {
  const auto it = ids_.find(token);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

std::string_view Bpe::token(int32_t id) const {
  return id >= 0 && id < size() ? std::string_view(tokens_[static_cast<size_t>(id)])
                                : std::string_view();
}

const Bpe::Merge* Bpe::find_merge(int32_t left, int32_t right) const {
  const uint64_t key = pair_key(left, right);
  size_t slot = hash_pair(key) & (merges_.size() - 1);
  while (merges_[slot].pair != key) {
    if (merges_[slot].pair == kNoPair) return nullptr;
    slot = (slot + 1) & (merges_.size() - 1);
  }
  return &merges_[slot];
}

// The id of one character of a word, or -1.
int32_t Bpe::character_id(std::string_view character, bool first, bool last) const {
  if ((prefix_.empty() || first) && (suffix_.empty() || !last) && character.size() < 4) {
    size_t pos = 0;
    return character_ids_[next_char(character, pos)];
  }
  std::string text;
  if (!first) text += prefix_;
  text += character;
  if (last) text += suffix_;
  const auto id = id_of(text);
  return id && control_[static_cast<size_t>(*id)] == 0 ? *id : -1;
}

// The symbols that merging starts from: characters, their bytes where the vocabulary lacks them, or
// the unknown token.
void Bpe::append_symbols(std::string_view word, std::vector<int32_t>& ids) const {
  bool unknown_pending = false;
  for (size_t pos = 0; pos < word.size();) {
    const size_t length = utf8_length(word, pos);
    const std::string_view character = word.substr(pos, length);
    const int32_t id = character_id(character, pos == 0, pos + length == word.size());
    pos += length;
    if (id >= 0) {
      if (std::exchange(unknown_pending, false)) ids.push_back(unknown_id_);
      ids.push_back(id);
      continue;
    }
    const auto byte_id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
    if (!byte_ids_.empty() &&
        std::ranges::all_of(character, [&](char c) { return byte_id(c) >= 0; })) {
      // As in the reference, a pending unknown token comes behind the bytes.
      for (const char c : character) ids.push_back(byte_id(c));
      continue;
    }
    if (unknown_id_ < 0) continue;
    if (unknown_pending && !fuse_unknown_) ids.push_back(unknown_id_);
    unknown_pending = true;
  }
  if (unknown_pending) ids.push_back(unknown_id_);
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (ignore_merges_)
    if (const auto id = id_of(word); id && control_[static_cast<size_t>(*id)] == 0) {
      ids.push_back(*id);
      return;
    }
  const size_t begin = ids.size();
  append_symbols(word, ids);
  if (ids.size() - begin <= kShortWord) {
    merge_short(ids, begin);
  } else {
    merge_long(ids, begin);
  }
}

// Scans for the best pair until there is none.
void Bpe::merge_short(std::vector<int32_t>& ids, size_t begin) const {
  size_t count = ids.size() - begin;
  int32_t* symbols = ids.data() + begin;
  std::array<const Merge*, kShortWord> merges{};  // [i]: of symbols i and i + 1
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = find_merge(symbols[i], symbols[i + 1]);
  while (true) {
    size_t best = kShortWord;
    for (size_t i = 0; i + 1 < count; ++i)
      if (merges[i] != nullptr && (best == kShortWord || merges[i]->rank < merges[best]->rank))
        best = i;
    if (best == kShortWord) break;
    symbols[best] = merges[best]->id;
    std::copy(symbols + best + 2, symbols + count, symbols + best + 1);
    std::copy(merges.data() + best + 1, merges.data() + count - 1, merges.data() + best);
    --count;
    if (best > 0) merges[best - 1] = find_merge(symbols[best - 1], symbols[best]);
    if (best + 1 < count) merges[best] = find_merge(symbols[best], symbols[best + 1]);
  }
  ids.resize(begin + count);
}

// A heap of candidate pairs over a linked list of symbols.
void Bpe::merge_long(std::vector<int32_t>& ids, size_t begin) const {
  struct Symbol {
    int32_t id;  // -1: merged into its left neighbour
    int32_t previous;
    int32_t next;
  };
  struct Candidate {
    uint32_t rank;
    int32_t left;
    int32_t id;
    bool operator<(const Candidate& other) const {  // the heap's top is the largest
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  const auto count = static_cast<int32_t>(ids.size() - begin);
  std::vector<Symbol> symbols(static_cast<size_t>(count));
  const auto at = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  for (int32_t i = 0; i < count; ++i)
    at(i) = {ids[begin + static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1};
  std::vector<Candidate> initial;
  initial.reserve(static_cast<size_t>(count));
  for (int32_t i = 0; i + 1 < count; ++i)
    if (const Merge* merge = find_merge(at(i).id, at(i + 1).id))
      initial.push_back({merge->rank, i, merge->id});
  std::priority_queue<Candidate> heap(std::less<Candidate>(), std::move(initial));
  const auto consider = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    if (const Merge* merge = find_merge(at(left).id, at(right).id))
      heap.push({merge->rank, left, merge->id});
  };
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    Symbol& left = at(top.left);
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = at(left.next);
    const Merge* merge = find_merge(left.id, right.id);
    if (merge == nullptr || merge->id != top.id) continue;  // one of the two has changed since
    left.id = top.id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) at(left.next).previous = top.left;
    consider(left.previous, top.left);
    consider(top.left, left.next);
  }
  ids.resize(begin);
  for (int32_t i = 0; i >= 0; i = at(i).next) ids.push_back(at(i).id);
}

}  // namespace hs
