// The BPE model of a tokenizer.json: vocabulary, merges, and the merging of one word into ids.
// Algorithm: Sennrich et al. 2016 (arXiv:1508.07909), pairs merged by rank, leftmost first;
// SentencePiece's byte fallback.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace hs {

// Ids lie below this, so that a damaged file cannot make us allocate without bound.
inline constexpr int32_t kTokenIdLimit = 1 << 21;

// Immutable after parse; may be used from any thread.
class Bpe {
 public:
  // Of the "model" object. Merging never yields an id of `control_ids`, whatever the file says:
  // what a user writes must not become a control token (they are found as added tokens, or not at
  // all).
  static Result<Bpe> parse(const nlohmann::json& json, std::span<const std::string> control_tokens);

  // Appends the ids of one word. REQUIRES: word is valid UTF-8. Cost O(n log n).
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

  std::optional<int32_t> id_of(std::string_view token) const;
  std::string_view token(int32_t id) const;                              // "" if unused or outside
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }  // highest id + 1

 private:
  struct Merge {
    uint64_t pair = kNoPair;  // left id << 32 | right id
    uint32_t rank = 0;
    int32_t id = 0;
  };
  static constexpr uint64_t kNoPair = UINT64_MAX;
  struct StringHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  Status read_vocabulary(const nlohmann::json& json, std::span<const std::string> control_tokens);
  Status read_options(const nlohmann::json& json);
  Status read_merges(const nlohmann::json& json);
  Status add_merge(std::string_view left, std::string_view right, uint32_t rank);
  void index_characters();
  const Merge* find_merge(int32_t left, int32_t right) const;
  int32_t character_id(std::string_view character, bool first, bool last) const;
  void append_symbols(std::string_view word, std::vector<int32_t>& ids) const;
  void merge_short(std::vector<int32_t>& ids, size_t begin) const;
  void merge_long(std::vector<int32_t>& ids, size_t begin) const;

  std::vector<std::string> tokens_;  // by id
  std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>> ids_;
  std::vector<uint8_t> control_;  // by id: never the result of merging
  std::vector<Merge> merges_;     // open addressing; the size is a power of two, at most half full
  std::vector<int32_t> character_ids_;  // of characters below U+10000: id, or -1
  std::vector<int32_t> byte_ids_;       // of <0x00> .. <0xFF>, or -1; empty without byte fallback
  int32_t unknown_id_ = -1;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  std::string prefix_;  // continuing_subword_prefix
  std::string suffix_;  // end_of_word_suffix
};

}  // namespace hs
