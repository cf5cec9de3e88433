// Receive slots: the rows of the language device's embedding memory, who waits for what in them,
// and which pictures can be used again.
//
// Numbers only: knows no device and no memory (embedding_transfer.h has those). Owned by the
// scheduler; the loop thread only.
//
// A slot is reserved before its picture is encoded, so memory is bounded and a burst of pictures
// queues instead of failing. Its states: reserved -> encoding -> (copying, between two devices) ->
// arrived -> released. A released slot keeps its rows for the next request with the same picture
// until somebody needs the room (least recently released goes first). A failed picture is dropped
// and never found again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace hs {

using SlotId = int32_t;
constexpr SlotId kNoSlot = -1;

enum class SlotState { kReserved, kEncoding, kCopying, kArrived };

// Identity of a picture's embeddings.
struct ImageKey {
  uint64_t content_hash[2] = {0, 0};
  int32_t n_rows = 0;
  bool operator==(const ImageKey&) const = default;
};

class EmbeddingSlots {
 public:
  // REQUIRES: n_rows >= 0. With 0 rows nothing can be reserved.
  explicit EmbeddingSlots(int64_t n_rows) : n_rows_(n_rows) {}
  EmbeddingSlots(const EmbeddingSlots&) = delete;
  EmbeddingSlots& operator=(const EmbeddingSlots&) = delete;

  int64_t n_rows() const { return n_rows_; }
  int64_t n_rows_used() const { return n_rows_used_; }  // by all slots, also those nobody holds
  int32_t n_slots() const { return static_cast<int32_t>(by_row_.size()); }
  int32_t n_held() const { return n_held_; }

  // The slot of this picture in any state, or kNoSlot. Takes no reference.
  SlotId find(const ImageKey& key) const;
  // Reserves one slot a picture, in consecutive rows, each with one reference; releases unheld
  // slots as needed. False when that would make no room either: then nothing has changed. REQUIRES:
  // the keys differ from each other and none is found.
  bool reserve(std::span<const ImageKey> keys, std::vector<SlotId>& slots);
  void add_ref(SlotId slot);
  void release(SlotId slot);

  void set_encoding(SlotId slot);
  void set_copying(SlotId slot);
  void set_arrived(SlotId slot);
  // Ends a slot whose picture failed. REQUIRES: no references, encoding or copying.
  void discard(SlotId slot);

  SlotState state(SlotId slot) const { return at(slot).state; }
  bool arrived(SlotId slot) const { return at(slot).state == SlotState::kArrived; }
  int64_t first_row(SlotId slot) const { return at(slot).first_row; }
  int32_t ref_count(SlotId slot) const { return at(slot).refs; }
  const ImageKey& key(SlotId slot) const { return at(slot).key; }

 private:
  struct Slot {
    ImageKey key;
    int64_t first_row = 0;
    SlotState state = SlotState::kReserved;
    int32_t refs = 0;
    uint64_t released_at = 0;  // order of the last release
    bool in_use = false;
  };
  struct KeyHash {
    size_t operator()(const ImageKey& key) const {
      return static_cast<size_t>(key.content_hash[0] ^
                                 (key.content_hash[1] * 0x9e3779b97f4a7c15ULL) ^
                                 static_cast<uint64_t>(key.n_rows));
    }
  };

  Slot& at(SlotId slot);
  const Slot& at(SlotId slot) const;
  bool evictable(const Slot& slot) const;
  // First row of the first gap that is large enough; with `after_eviction` as if all unheld slots
  // were gone.
  std::optional<int64_t> find_gap(int64_t n_rows, bool after_eviction) const;
  bool evict_one();
  void drop(SlotId slot);

  int64_t n_rows_;
  int64_t n_rows_used_ = 0;
  int64_t n_rows_held_ = 0;  // of slots with references
  int32_t n_held_ = 0;
  uint64_t n_releases_ = 0;
  std::vector<Slot> slots_;
  std::vector<SlotId> unused_;  // indices of slots_ to use again
  std::vector<SlotId> by_row_;  // live slots, by first_row
  std::unordered_map<ImageKey, SlotId, KeyHash> index_;
};

}  // namespace hs
