// Receive slots never overlap, never exceed their memory, and are used again only for the same
// picture.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>

#include "engine/embedding_slots.h"
#include "engine/engine_fixture.h"

using namespace hs;

namespace {

ImageKey key(uint64_t picture, int32_t n_rows) {
  return {.content_hash = {picture, picture * 3}, .n_rows = n_rows};
}

// One slot that has arrived, held once.
SlotId arrive(EmbeddingSlots& slots, const ImageKey& picture) {
  std::vector<SlotId> reserved;
  BOOST_REQUIRE(slots.reserve(std::vector{picture}, reserved));
  slots.set_encoding(reserved[0]);
  slots.set_arrived(reserved[0]);
  return reserved[0];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(embedding_slots_tests)

BOOST_AUTO_TEST_CASE(a_slot_walks_through_its_states) {
  EmbeddingSlots slots(10);
  std::vector<SlotId> reserved;
  BOOST_REQUIRE(slots.reserve(std::vector{key(1, 4), key(2, 6)}, reserved));
  BOOST_REQUIRE(reserved.size() == 2);
  BOOST_TEST(slots.first_row(reserved[1]) == slots.first_row(reserved[0]) + 4);
  BOOST_TEST((slots.state(reserved[0]) == SlotState::kReserved));
  slots.set_encoding(reserved[0]);
  BOOST_TEST(!slots.arrived(reserved[0]));
  slots.set_copying(reserved[0]);
  slots.set_arrived(reserved[0]);
  BOOST_TEST(slots.arrived(reserved[0]));
  BOOST_TEST(slots.n_held() == 2);
  BOOST_TEST(slots.n_rows_used() == 10);
  slots.release(reserved[0]);
  BOOST_TEST(slots.n_held() == 1);
  BOOST_TEST(slots.n_rows_used() == 10);  // kept for the next
}

BOOST_AUTO_TEST_CASE(a_released_slot_is_found_by_its_picture_until_the_room_is_needed) {
  EmbeddingSlots slots(10);
  const SlotId a = arrive(slots, key(1, 5));
  slots.release(a);
  BOOST_TEST(slots.find(key(1, 5)) == a);
  BOOST_TEST(slots.find(key(1, 4)) == kNoSlot);
  BOOST_TEST(slots.find(key(2, 5)) == kNoSlot);
  slots.add_ref(a);
  slots.release(a);
  const SlotId b = arrive(slots, key(2, 5));
  BOOST_TEST(slots.find(key(1, 5)) == a);
  arrive(slots, key(3, 5));
  BOOST_TEST(slots.find(key(1, 5)) == kNoSlot);
  BOOST_TEST(slots.find(key(2, 5)) == b);
}

BOOST_AUTO_TEST_CASE(the_least_recently_released_slot_goes_first) {
  EmbeddingSlots slots(9);
  const SlotId a = arrive(slots, key(1, 3));
  const SlotId b = arrive(slots, key(2, 3));
  const SlotId c = arrive(slots, key(3, 3));
  for (const SlotId slot : {b, a, c}) slots.release(slot);
  arrive(slots, key(4, 3));
  BOOST_TEST(slots.find(key(2, 3)) == kNoSlot);
  BOOST_TEST(slots.find(key(1, 3)) == a);
}

BOOST_AUTO_TEST_CASE(held_slots_stay_and_a_refusal_changes_nothing) {
  EmbeddingSlots slots(10);
  const SlotId held = arrive(slots, key(1, 6));
  const SlotId unheld = arrive(slots, key(2, 3));
  slots.release(unheld);
  std::vector<SlotId> reserved;
  BOOST_TEST(!slots.reserve(std::vector{key(3, 5)}, reserved));
  BOOST_TEST(slots.find(key(2, 3)) == unheld);
  BOOST_TEST(!slots.reserve(std::vector{key(4, 11)}, reserved));
  BOOST_TEST(slots.reserve(std::vector{key(3, 4)}, reserved));
  BOOST_TEST(slots.find(key(1, 6)) == held);
  BOOST_TEST(slots.find(key(2, 3)) == kNoSlot);
}

BOOST_AUTO_TEST_CASE(a_slot_that_a_lane_writes_to_is_never_evicted) {
  EmbeddingSlots slots(4);
  std::vector<SlotId> reserved;
  BOOST_REQUIRE(slots.reserve(std::vector{key(1, 4)}, reserved));
  const SlotId slot = reserved[0];
  slots.set_encoding(slot);
  slots.release(slot);
  BOOST_TEST(!slots.reserve(std::vector{key(2, 4)}, reserved));
  slots.set_arrived(slot);
  BOOST_TEST(slots.reserve(std::vector{key(2, 4)}, reserved));
}

BOOST_AUTO_TEST_CASE(a_failed_picture_is_not_found_and_gives_its_rows_back) {
  EmbeddingSlots slots(4);
  std::vector<SlotId> reserved;
  BOOST_REQUIRE(slots.reserve(std::vector{key(1, 4)}, reserved));
  slots.set_encoding(reserved[0]);
  slots.release(reserved[0]);
  slots.discard(reserved[0]);
  BOOST_TEST(slots.find(key(1, 4)) == kNoSlot);
  BOOST_TEST(slots.n_rows_used() == 0);
  BOOST_TEST(slots.n_slots() == 0);
}

BOOST_AUTO_TEST_CASE(slots_never_overlap_whatever_happens) {
  const uint32_t seed = hs::test::test_seed();
  BOOST_TEST_CONTEXT("seed " << seed) {
    std::mt19937 random(seed);
    constexpr int32_t kRows = 40;
    EmbeddingSlots slots(kRows);
    struct Held {
      SlotId slot;
      ImageKey key;
    };
    std::vector<Held> held;
    std::vector<SlotId> reserved;
    for (int i = 0; i < 5000; ++i) {
      if (random() % 2 == 0) {
        const uint64_t picture = random() % 20;
        const ImageKey wanted = key(picture, static_cast<int32_t>(1 + picture % 13));
        SlotId slot = slots.find(wanted);
        if (slot != kNoSlot) {
          slots.add_ref(slot);
        } else if (slots.reserve(std::vector{wanted}, reserved)) {
          slot = reserved[0];
          slots.set_encoding(slot);
          slots.set_arrived(slot);
        } else {
          continue;
        }
        held.push_back({slot, wanted});
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        slots.release(held.back().slot);
        held.pop_back();
      }
      std::vector<SlotId> owner(kRows, kNoSlot);
      for (const Held& h : held) {
        BOOST_REQUIRE(slots.key(h.slot) == h.key);
        BOOST_REQUIRE(slots.find(h.key) == h.slot);
        for (int64_t row = 0; row < h.key.n_rows; ++row) {
          SlotId& of = owner.at(static_cast<size_t>(slots.first_row(h.slot) + row));
          BOOST_REQUIRE(of == kNoSlot || of == h.slot);
          of = h.slot;
        }
      }
      BOOST_REQUIRE(slots.n_rows_used() <= kRows);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
