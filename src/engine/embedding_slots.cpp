#include "engine/embedding_slots.h"

#include <algorithm>

#include "base/check.h"

namespace hs {

EmbeddingSlots::Slot& EmbeddingSlots::at(SlotId slot) {
  HS_CHECK_GE(slot, 0);
  HS_CHECK_LT(static_cast<size_t>(slot), slots_.size());
  Slot& s = slots_[static_cast<size_t>(slot)];
  HS_CHECK(s.in_use);
  return s;
}

const EmbeddingSlots::Slot& EmbeddingSlots::at(SlotId slot) const {
  return const_cast<EmbeddingSlots*>(this)->at(slot);
}

SlotId EmbeddingSlots::find(const ImageKey& key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? kNoSlot : it->second;
}

// The lane still writes to a slot that has not arrived, whoever has lost interest in it.
bool EmbeddingSlots::evictable(const Slot& slot) const {
  return slot.refs == 0 && slot.state == SlotState::kArrived;
}

std::optional<int64_t> EmbeddingSlots::find_gap(int64_t n_rows, bool after_eviction) const {
  int64_t begin = 0;
  for (const SlotId id : by_row_) {
    const Slot& slot = slots_[static_cast<size_t>(id)];
    if (after_eviction && evictable(slot)) continue;
    if (slot.first_row - begin >= n_rows) return begin;
    begin = slot.first_row + slot.key.n_rows;
  }
  if (n_rows_ - begin >= n_rows) return begin;
  return std::nullopt;
}

bool EmbeddingSlots::evict_one() {
  SlotId oldest = kNoSlot;
  for (const SlotId id : by_row_) {
    const Slot& slot = slots_[static_cast<size_t>(id)];
    if (!evictable(slot)) continue;
    if (oldest == kNoSlot || slot.released_at < at(oldest).released_at) oldest = id;
  }
  if (oldest == kNoSlot) return false;
  drop(oldest);
  return true;
}

bool EmbeddingSlots::reserve(std::span<const ImageKey> keys, std::vector<SlotId>& slots) {
  slots.clear();
  int64_t total = 0;
  for (const ImageKey& key : keys) {
    HS_CHECK_GT(key.n_rows, 0);
    HS_CHECK(!index_.contains(key));
    total += key.n_rows;
  }
  if (total > n_rows_ - n_rows_held_ || !find_gap(total, true)) return false;
  std::optional<int64_t> row = find_gap(total, false);
  while (!row) {
    HS_CHECK(evict_one());
    row = find_gap(total, false);
  }
  for (const ImageKey& key : keys) {
    SlotId id = static_cast<SlotId>(slots_.size());
    if (unused_.empty()) {
      slots_.emplace_back();
    } else {
      id = unused_.back();
      unused_.pop_back();
    }
    slots_[static_cast<size_t>(id)] = {.key = key, .first_row = *row, .refs = 1, .in_use = true};
    const auto after = std::ranges::upper_bound(by_row_, *row, {}, [this](SlotId other) {
      return slots_[static_cast<size_t>(other)].first_row;
    });
    by_row_.insert(after, id);
    HS_CHECK(index_.emplace(key, id).second);
    slots.push_back(id);
    *row += key.n_rows;
  }
  n_rows_used_ += total;
  n_rows_held_ += total;
  n_held_ += static_cast<int32_t>(keys.size());
  return true;
}

void EmbeddingSlots::add_ref(SlotId slot) {
  Slot& s = at(slot);
  if (s.refs++ > 0) return;
  ++n_held_;
  n_rows_held_ += s.key.n_rows;
}

void EmbeddingSlots::release(SlotId slot) {
  Slot& s = at(slot);
  HS_CHECK_GT(s.refs, 0);
  if (--s.refs > 0) return;
  --n_held_;
  n_rows_held_ -= s.key.n_rows;
  s.released_at = ++n_releases_;
}

void EmbeddingSlots::set_encoding(SlotId slot) {
  HS_CHECK(at(slot).state == SlotState::kReserved);
  at(slot).state = SlotState::kEncoding;
}

void EmbeddingSlots::set_copying(SlotId slot) {
  HS_CHECK(at(slot).state == SlotState::kEncoding);
  at(slot).state = SlotState::kCopying;
}

void EmbeddingSlots::set_arrived(SlotId slot) {
  HS_CHECK(at(slot).state == SlotState::kEncoding || at(slot).state == SlotState::kCopying);
  at(slot).state = SlotState::kArrived;
}

void EmbeddingSlots::discard(SlotId slot) {
  HS_CHECK_EQ(at(slot).refs, 0);
  HS_CHECK(at(slot).state == SlotState::kEncoding || at(slot).state == SlotState::kCopying);
  drop(slot);
}

void EmbeddingSlots::drop(SlotId slot) {
  Slot& s = at(slot);
  HS_CHECK_EQ(s.refs, 0);
  n_rows_used_ -= s.key.n_rows;
  index_.erase(s.key);
  std::erase(by_row_, slot);
  s.in_use = false;
  unused_.push_back(slot);
}

}  // namespace hs
