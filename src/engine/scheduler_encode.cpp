// Pictures: which are needed next, their receive slots, and what happens when they arrive or fail.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "engine/scheduler.h"

namespace hs {
namespace {

bool no_slot(const PromptImage& image) {
  return image.slot == kNoSlot;
}

}  // namespace

// Tokens from here on are still to be run: pictures that end before are not needed (now).
int32_t Scheduler::needed_from(const Sequence& sequence) const {
  switch (sequence.state) {
    case SequenceState::kFinished:
      return std::numeric_limits<int32_t>::max();
    case SequenceState::kUnstarted:
      return sequence.request->fork_point(config_.block_size);
    default:
      return std::max(sequence.n_computed, sequence.request->cached_hint);
  }
}

int32_t Scheduler::needed_from(const RequestState& request) const {
  if (request.choices.size() == 1) return needed_from(request.choices.front());
  int32_t needed = std::numeric_limits<int32_t>::max();
  for (const Sequence& sequence : request.choices) {
    needed = std::min(needed, needed_from(sequence));
  }
  return needed;
}

void Scheduler::drop_passed_slots(RequestState& request) {
  const int32_t from = needed_from(request);
  for (PromptImage& image : request.images) {
    if (image.slot == kNoSlot || image.end() > from) continue;
    slots_.release(image.slot);
    image.slot = kNoSlot;
    links_stale_ = true;
  }
}

void Scheduler::drop_slots(RequestState& request) {
  for (PromptImage& image : request.images) {
    if (image.slot == kNoSlot) continue;
    slots_.release(image.slot);
    image.slot = kNoSlot;
    links_stale_ = true;
  }
}

// Gives every request the slots that exist for its needed pictures: for the first choice first, in
// the order of the prompt, up to the first picture without one. A slot held for a later need could
// stand in the way of the first.
void Scheduler::link_slots() {
  if (!links_stale_) return;
  links_stale_ = false;
  for (RequestState* request : by_arrival_) {
    if (!request->images.empty()) link_slots(*request);
  }
}

void Scheduler::link_slots(RequestState& request) {
  request.lacks_slot = false;
  for (const Sequence& sequence : request.choices) {
    const int32_t from = needed_from(sequence);
    for (PromptImage& image : request.images) {
      if (image.end() <= from || image.slot != kNoSlot) continue;
      const SlotId slot = slots_.find(image.key);
      if (slot == kNoSlot) {
        request.lacks_slot = true;
        return;
      }
      slots_.add_ref(slot);
      image.slot = slot;
      ++counters_.image_cache_queries;
      ++counters_.image_cache_hits;
    }
  }
}

// The oldest pictures that have no slot yet, each once, into order.items and keys_.
void Scheduler::collect_pictures(EncodeOrder& order) {
  keys_.clear();
  order.n_rows = 0;
  for (const RequestState* request : by_arrival_) {
    if (request->lacks_slot && !collect_pictures(*request, order)) return;
  }
}

// False when the order is full.
bool Scheduler::collect_pictures(const RequestState& request, EncodeOrder& order) {
  for (const Sequence& sequence : request.choices) {
    const int32_t from = needed_from(sequence);
    for (size_t i = 0; i < request.images.size(); ++i) {
      const PromptImage& image = request.images[i];
      if (image.end() <= from || image.slot != kNoSlot) continue;
      if (std::ranges::find(keys_, image.key) != keys_.end()) continue;
      if (slots_.find(image.key) != kNoSlot) return true;  // linked when those before it are
      if (keys_.size() == static_cast<size_t>(config_.max_encode_images) ||
          order.n_rows + image.key.n_rows > config_.max_encode_rows) {
        return false;
      }
      order.n_rows += image.key.n_rows;
      keys_.push_back(image.key);
      order.items.push_back(
          {request.id, sequence.choice, static_cast<int32_t>(i), kNoSlot, image.key.n_rows});
    }
  }
  return true;
}

// Makes room for the picture that `item` needs by releasing slots that are held for younger needs:
// those of younger requests, then those that only younger choices of the same request wait for, or
// the same choice for later.
bool Scheduler::take_from_younger(const EncodeOrder::Item& item) {
  const std::span<const ImageKey> key(keys_.data(), 1);
  RequestState& request = *requests_.at(item.request);
  for (size_t i = by_arrival_.size(); i-- > 0 && by_arrival_[i] != &request;) {
    RequestState& victim = *by_arrival_[i];
    if (std::ranges::all_of(victim.images, no_slot)) continue;  // nothing to take
    if (in_flight(victim)) continue;                            // the step reads its rows
    drop_slots(victim);
    if (slots_.reserve(key, reserved_)) return true;
  }
  if (in_flight(request)) return false;
  for (size_t i = request.images.size(); i-- > 0;) {
    PromptImage& image = request.images[i];
    if (image.slot == kNoSlot) continue;
    const auto needs = [&](const Sequence& s) { return image.end() > needed_from(s); };
    const auto older = std::span(request.choices).first(static_cast<size_t>(item.choice));
    if (std::ranges::any_of(older, needs)) continue;
    const bool comes_first = i < static_cast<size_t>(item.image) &&
                             needs(request.choices[static_cast<size_t>(item.choice)]);
    if (comes_first) continue;
    slots_.release(image.slot);
    image.slot = kNoSlot;
    links_stale_ = true;
    if (slots_.reserve(key, reserved_)) return true;
  }
  return false;
}

// Reserves consecutive rows for as many of the collected pictures as fit.
bool Scheduler::reserve(EncodeOrder& order) {
  const std::span<const ImageKey> keys(keys_);
  size_t n = keys.size();
  while (n > 0 && !slots_.reserve(keys.first(n), reserved_)) --n;
  if (n == 0) {
    if (!take_from_younger(order.items.front())) return false;
    n = 1;
  }
  order.items.resize(n);
  links_stale_ = true;
  order.first_row = slots_.first_row(reserved_.front());
  order.n_rows = 0;
  for (size_t i = 0; i < n; ++i) {
    EncodeOrder::Item& item = order.items[i];
    item.slot = reserved_[i];
    order.n_rows += item.n_rows;
    slots_.set_encoding(item.slot);
    RequestState& request = *requests_.at(item.request);
    request.images[static_cast<size_t>(item.image)].slot = item.slot;
    ++counters_.image_cache_queries;
  }
  return true;
}

bool Scheduler::needs_picture(const RequestState& request) const {
  const int32_t from = needed_from(request);
  return std::ranges::any_of(request.images, [&](const PromptImage& image) {
    return image.end() > from && (image.slot == kNoSlot || !slots_.arrived(image.slot));
  });
}

uint64_t Scheduler::next_picture() {
  if (slots_.n_rows() == 0) return std::numeric_limits<uint64_t>::max();
  link_slots();
  for (const RequestState* request : by_arrival_) {
    if (!request->lacks_slot) continue;
    const int32_t from = needed_from(*request);
    for (const PromptImage& image : request->images) {
      if (image.end() > from && image.slot == kNoSlot && slots_.find(image.key) == kNoSlot) {
        return request->arrival;
      }
    }
  }
  return std::numeric_limits<uint64_t>::max();
}

bool Scheduler::next_encode(EncodeOrder& order) {
  order.items.clear();
  if (slots_.n_rows() == 0) return false;
  link_slots();
  collect_pictures(order);
  if (order.items.empty() || !reserve(order)) {
    order.items.clear();
    return false;
  }
  link_slots();  // others that wait for the same pictures
  order.id = ++n_orders_;
  encodes_.push_back(order);
  return true;
}

// Nobody finds this slot again; those who wait for it are told.
void Scheduler::fail_slot(SlotId slot, std::vector<RequestId>& failed) {
  for (const auto& [id, request] : requests_) {
    bool waits = false;
    for (PromptImage& image : request->images) {
      if (image.slot != slot) continue;
      slots_.release(slot);
      image.slot = kNoSlot;
      links_stale_ = true;
      waits = true;
    }
    if (waits && !request->cancelled) failed.push_back(id);
  }
  slots_.discard(slot);
}

EncodeOrder Scheduler::take_encode(uint64_t order_id) {
  const auto it = std::ranges::find(encodes_, order_id, &EncodeOrder::id);
  HS_CHECK(it != encodes_.end());
  EncodeOrder order = std::move(*it);
  encodes_.erase(it);
  return order;
}

void Scheduler::encode_lost(uint64_t order_id) {
  const EncodeOrder lost = take_encode(order_id);
  for (const EncodeOrder::Item& item : lost.items) {
    for (const auto& [id, request] : requests_) {
      for (PromptImage& image : request->images) {
        if (image.slot != item.slot) continue;
        slots_.release(item.slot);
        image.slot = kNoSlot;
        links_stale_ = true;
      }
    }
    slots_.discard(item.slot);
  }
}

bool Scheduler::encode_done(uint64_t order_id, std::span<const ImageOutcome> outcomes,
                            std::vector<RequestId>& failed) {
  const EncodeOrder done = take_encode(order_id);
  HS_CHECK_EQ(outcomes.size(), done.items.size());
  TransferOrder transfer{
      .id = done.id, .unit = done.unit, .tower = done.tower, .buffer = done.buffer, .items = {}};
  int64_t row = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const EncodeOrder::Item& item = done.items[i];
    if (outcomes[i] == ImageOutcome::kFailed) {
      fail_slot(item.slot, failed);
    } else {
      ++counters_.images_encoded;
      if (done.buffer < 0) {
        slots_.set_arrived(item.slot);
      } else {
        slots_.set_copying(item.slot);
        transfer.items.push_back({item.slot, row, slots_.first_row(item.slot), item.n_rows});
      }
    }
    row += item.n_rows;
  }
  if (transfer.items.empty()) return false;
  transfers_.push_back(std::move(transfer));
  return true;
}

bool Scheduler::next_transfer(TransferOrder& order) {
  if (n_transfers_out_ == transfers_.size()) return false;
  order = transfers_[n_transfers_out_++];
  return true;
}

void Scheduler::transfer_done(std::span<const ImageOutcome> outcomes,
                              std::vector<RequestId>& failed) {
  HS_CHECK_GT(n_transfers_out_, size_t{0});
  const TransferOrder order = std::move(transfers_.front());
  transfers_.pop_front();
  --n_transfers_out_;
  HS_CHECK_EQ(outcomes.size(), order.items.size());
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i] == ImageOutcome::kOk) {
      slots_.set_arrived(order.items[i].slot);
    } else {
      fail_slot(order.items[i].slot, failed);
    }
  }
}

}  // namespace hs
