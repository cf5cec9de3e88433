// What runs where, shown by scripts of events and the orders that come back: towers for several
// units, stealing and going back, the hand-over after prefill, lost devices. No model, no thread,
// no time.
#include <boost/test/unit_test.hpp>

#include "engine/tier_script.h"

using namespace hs;
using namespace hs::test;

BOOST_AUTO_TEST_SUITE(tier_scheduler_tests)

BOOST_AUTO_TEST_CASE(rows_wait_in_the_towers_buffers_until_they_are_fetched) {
  Script script(modality());
  for (RequestId id = 1; id <= 4; ++id) BOOST_REQUIRE(script.arrive(id, 10, {image_at(0, id, 8)}));
  TransferOrder first;
  TransferOrder second;
  std::vector<RequestId> failed;
  BOOST_TEST(script.encode() == "0>1/02/0");
  script.encode_done();
  BOOST_REQUIRE(script.tiers.next_transfer(first));
  BOOST_TEST(script.encode() == "0>3/04/0");
  script.encode_done();
  BOOST_REQUIRE(script.tiers.next_transfer(second));
  BOOST_TEST(first.buffer != second.buffer);
  BOOST_TEST(script.step(0) == "-");
  script.tiers.transfer_done(first, outcomes_of(first, true), failed);
  BOOST_TEST(script.run(0) == "1:0+10! 2:0+6");
  script.tiers.transfer_done(second, outcomes_of(second, false), failed);
  std::ranges::sort(failed);
  BOOST_TEST((failed == std::vector<RequestId>{3, 4}));
}

BOOST_AUTO_TEST_CASE(no_picture_is_encoded_while_all_buffers_are_full) {
  TierConfig config = modality();
  config.towers[0].n_buffers = 1;
  Script script(config);
  for (RequestId id = 1; id <= 3; ++id) BOOST_REQUIRE(script.arrive(id, 10, {image_at(0, id, 8)}));
  BOOST_TEST(script.encode() == "0>1/02/0");
  script.encode_done();
  BOOST_TEST(script.encode() == "-");
  TransferOrder order;
  std::vector<RequestId> failed;
  BOOST_REQUIRE(script.tiers.next_transfer(order));
  BOOST_TEST(script.encode() == "-");
  script.tiers.transfer_done(order, outcomes_of(order, true), failed);
  BOOST_TEST(script.encode() == "0>3/0");
}

BOOST_AUTO_TEST_CASE(an_idle_thief_takes_whole_requests_that_would_wait) {
  Script script(two_devices(UnitRole::kThief, UnitRole::kServe));
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_TEST(script.step(0) == "1:0+10!");
  BOOST_REQUIRE(script.arrive(2, 6));
  BOOST_TEST(script.step(1) == "2:0+6!");
  BOOST_TEST(script.tiers.was_stolen(2));
  BOOST_TEST(!script.tiers.was_stolen(1));
  script.step_done(0);
  script.step_done(1);
  // Both have as much to do; the next one stays where it came to.
  BOOST_REQUIRE(script.arrive(3, 6));
  BOOST_TEST(script.step(1) == "2:6+1!");
  BOOST_TEST(script.step(0) == "1:10+1! 3:0+6!");
  BOOST_TEST(script.tiers.counters().steals == 1);
}

BOOST_AUTO_TEST_CASE(of_requests_with_pictures_the_next_is_stolen_when_the_last_one_has_begun) {
  Script texts(two_devices(UnitRole::kThief, UnitRole::kServe));
  for (RequestId id = 1; id <= 6; ++id) BOOST_REQUIRE(texts.arrive(id, 10));
  BOOST_TEST(texts.step(1) != "-");
  BOOST_TEST(texts.tiers.counters().steals == 3);

  Script script(two_devices(UnitRole::kThief, UnitRole::kServe));
  for (RequestId id = 1; id <= 6; ++id) BOOST_REQUIRE(script.arrive(id, 10, {image_at(0, id, 8)}));
  BOOST_TEST(script.step(1) == "-");
  BOOST_TEST(script.step(1) == "-");
  BOOST_TEST(script.tiers.counters().steals == 1);
  BOOST_TEST(script.tiers.unit_of(1) == 1);
  BOOST_TEST(script.encode() == "1>1/0!");
  script.encode_done();
  BOOST_TEST(script.run(1) == "1:0+8");
  BOOST_TEST(script.step(1) != "-");
  BOOST_TEST(script.tiers.counters().steals == 2);
}

BOOST_AUTO_TEST_CASE(nothing_is_stolen_from_a_unit_with_one_request_or_with_stealing_off) {
  Script script(two_devices(UnitRole::kThief, UnitRole::kServe));
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_TEST(script.step(1) == "-");
  BOOST_TEST(script.run(0) == "1:0+10!");
  TierConfig off = two_devices(UnitRole::kThief, UnitRole::kServe);
  off.steal = StealMode::kOff;
  Script other(off);
  for (RequestId id = 1; id <= 3; ++id) BOOST_REQUIRE(other.arrive(id, 10));
  BOOST_TEST(other.step(1) == "-");
}

BOOST_AUTO_TEST_CASE(a_slow_thief_is_left_alone_in_auto_mode) {
  TierConfig config = two_devices(UnitRole::kThief, UnitRole::kServe);
  config.steal = StealMode::kAuto;
  config.steal_delay_us = 1'000'000'000;
  Script script(config);
  BOOST_REQUIRE(script.arrive(1, 10, {}, 1, 8));
  BOOST_REQUIRE(script.arrive(2, 10, {}, 1, 8));
  BOOST_TEST(script.step(0) == "1:0+10! 2:0+6");  // already begun
  script.step_done(0, 160);
  BOOST_REQUIRE(script.arrive(3, 10, {}, 1, 8));
  BOOST_TEST(script.step(1) == "3:0+8");  // to find out
  script.step_done(1, 800'000);           // 10,000 times slower
  BOOST_REQUIRE(script.arrive(4, 10, {}, 1, 8));
  script.step(1);
  BOOST_TEST(!script.tiers.was_stolen(4));
}

BOOST_AUTO_TEST_CASE(vision_goes_before_stolen_work) {
  Script script(two_devices(UnitRole::kThief, UnitRole::kServe));
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_TEST(script.step(0) == "1:0+10!");
  BOOST_REQUIRE(script.arrive(2, 20));
  BOOST_TEST(script.run(1) == "2:0+8");  // a short first step: nothing is known of its time
  BOOST_REQUIRE(script.arrive(3, 12, {image_at(0, 1, 8)}));
  BOOST_TEST(script.encode() == "0>3/0");
  BOOST_TEST(script.step(1) == "-");
  script.encode_done();
  BOOST_TEST(script.step(1).starts_with("2:8+"));
}

BOOST_AUTO_TEST_CASE(stolen_steps_are_cut_to_the_delay_that_vision_may_suffer) {
  TierConfig config = two_devices(UnitRole::kThief, UnitRole::kServe);
  config.steal_delay_us = 500;
  Script script(config);
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_TEST(script.step(0) == "1:0+10!");
  BOOST_REQUIRE(script.arrive(2, 40));
  BOOST_TEST(script.run(1, 800) == "2:0+8");
  BOOST_TEST(script.run(1, 500) == "2:8+5");  // 100 us a token
  BOOST_TEST(script.run(1, 5'000) == "2:13+5");
  BOOST_TEST(script.run(1) == "2:18+1");
}

BOOST_AUTO_TEST_CASE(a_stolen_request_that_vision_keeps_waiting_goes_back_with_its_tokens) {
  TierConfig config = two_devices(UnitRole::kThief, UnitRole::kServe);
  config.steal_pause_us = 5'000;
  Script script(config);
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_TEST(script.step(0) == "1:0+10!");
  BOOST_REQUIRE(script.arrive(2, 6));
  BOOST_TEST(script.run(1) == "2:0+6!");
  for (uint64_t picture = 1; picture <= 3; ++picture) {
    const RequestId id = 10 + picture;
    BOOST_REQUIRE(script.arrive(id, 10, {image_at(0, picture, 8)}));
    script.tiers.plan();
    BOOST_TEST(script.tiers.unit_of(2) == 1);
    BOOST_TEST(script.encode() != "-");
    script.encode_done(0, 2'000);
    TransferOrder order;
    std::vector<RequestId> failed;
    BOOST_REQUIRE(script.tiers.next_transfer(order));
    script.tiers.transfer_done(order, outcomes_of(order, true), failed);
    script.tiers.cancel(id);
  }
  script.tiers.plan();
  BOOST_TEST(script.tiers.unit_of(2) == 0);
  BOOST_TEST(script.tiers.counters().returns == 1);
  BOOST_TEST(script.tiers.unit(1).pool().n_held() == 0);
  script.step_done(0);
  BOOST_TEST(script.run(0) == "1:10+1! 2:0+7!");  // with the token that it had
  BOOST_TEST(script.step(1) == "-");              // and is not stolen again
}

BOOST_AUTO_TEST_CASE(a_paused_request_stays_while_going_back_would_take_longer) {
  TierConfig config = two_devices(UnitRole::kThief, UnitRole::kServe);
  config.steal_pause_us = 100;
  Script script(config);
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_REQUIRE(script.arrive(2, 10));
  BOOST_TEST(script.run(0) == "1:0+10! 2:0+6");  // home's time is known from here on
  BOOST_TEST(script.step(0) == "1:10+1! 2:6+4!");
  BOOST_REQUIRE(script.arrive(3, 6));
  BOOST_TEST(script.run(1, 375) == "3:0+6!");  // as fast as home
  const auto pause = [&](uint64_t picture, int64_t duration_us) {
    const RequestId id = 10 + picture;
    BOOST_REQUIRE(script.arrive(id, 10, {image_at(0, picture, 8)}));
    BOOST_TEST(script.encode() != "-");
    script.encode_done(0, duration_us);
    TransferOrder order;
    std::vector<RequestId> failed;
    BOOST_REQUIRE(script.tiers.next_transfer(order));
    script.tiers.transfer_done(order, outcomes_of(order, true), failed);
    script.tiers.cancel(id);
    script.tiers.plan();
  };
  // It keeps three quarters of a device; at home it would be one of three.
  script.run(1, 62);
  pause(1, 150);
  BOOST_TEST(script.tiers.unit_of(3) == 1);
  BOOST_TEST(script.tiers.counters().returns == 0);
  // A device that vision has almost for itself is worse than home.
  pause(2, 1'000'000);
  BOOST_TEST(script.tiers.unit_of(3) == 0);
  BOOST_TEST(script.tiers.counters().returns == 1);
}

BOOST_AUTO_TEST_CASE(no_stolen_step_begins_while_a_picture_waits_for_a_buffer) {
  TierConfig config = two_devices(UnitRole::kThief, UnitRole::kServe);
  config.towers[0].n_buffers = 1;
  for (TierConfig::Unit& unit : config.units) unit.scheduling.max_encode_images = 1;
  Script script(config);
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_TEST(script.step(0) == "1:0+10!");
  BOOST_REQUIRE(script.arrive(2, 30));
  BOOST_TEST(script.run(1) == "2:0+8");
  BOOST_REQUIRE(script.arrive(3, 10, {image_at(0, 1, 8)}));
  BOOST_TEST(script.encode() == "0>3/0");
  BOOST_REQUIRE(script.arrive(4, 10, {image_at(0, 2, 8)}));
  script.encode_done();
  TransferOrder transfer;
  std::vector<RequestId> failed;
  BOOST_REQUIRE(script.tiers.next_transfer(transfer));
  BOOST_TEST(script.encode() == "-");
  BOOST_TEST(script.step(1) == "-");
  script.tiers.transfer_done(transfer, outcomes_of(transfer, true), failed);
  BOOST_TEST(script.encode() == "0>4/0");
  script.encode_done();
  BOOST_TEST(script.step(1).starts_with("2:8+"));  // nobody waits for the full buffer
}

BOOST_AUTO_TEST_CASE(a_paused_request_whose_picture_is_encoded_waits_longer) {
  TierConfig config = two_devices(UnitRole::kThief, UnitRole::kServe);
  config.steal_pause_us = 5'000;
  Script script(config);
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_TEST(script.step(0) == "1:0+10!");
  BOOST_REQUIRE(script.arrive(2, 10, {image_at(0, 100, 8)}));
  BOOST_TEST(script.step(1) == "-");  // stolen; its picture comes first
  BOOST_TEST(script.tiers.unit_of(2) == 1);
  BOOST_TEST(script.encode() == "1>2/0!");
  script.encode_done(0, 1'000);
  BOOST_TEST(script.run(1) == "2:0+8");
  for (uint64_t picture = 1; picture <= 2; ++picture) {
    const RequestId id = 10 + picture;
    BOOST_REQUIRE(script.arrive(id, 10, {image_at(0, picture, 8)}));
    BOOST_TEST(script.encode() != "-");
    script.encode_done(0, 10'000);
    TransferOrder order;
    std::vector<RequestId> failed;
    BOOST_REQUIRE(script.tiers.next_transfer(order));
    script.tiers.transfer_done(order, outcomes_of(order, true), failed);
    script.tiers.cancel(id);
    script.tiers.plan();
    BOOST_TEST(script.tiers.unit_of(2) == (picture == 1 ? 1 : 0));
  }
  BOOST_TEST(script.tiers.counters().returns == 1);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_on_the_thief_stays) {
  TierConfig config = two_devices(UnitRole::kThief, UnitRole::kServe);
  config.units[1].scheduling = unit_config(10);  // 40 tokens
  Script script(config);
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_TEST(script.step(0) == "1:0+10!");
  BOOST_REQUIRE(script.arrive(2, 20, {}, 1, 30));
  BOOST_TEST(script.step(1) == "-");
  BOOST_REQUIRE(script.arrive(3, 20, {}, 1, 20));
  BOOST_TEST(script.step(1) == "-");  // nobody passes the oldest
  script.tiers.cancel(2);
  BOOST_TEST(script.step(1) == "3:0+8");
}

BOOST_AUTO_TEST_CASE(a_prefill_unit_hands_over_with_the_first_token) {
  Script script(two_devices(UnitRole::kPrefill, UnitRole::kDecode));
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_TEST(script.tiers.unit_of(1) == 1);
  BOOST_TEST(script.run(1) == "1:0+10!");
  BOOST_TEST(script.step(1) == "-");  // it does not decode
  script.tiers.plan();
  KvOrder order;
  BOOST_REQUIRE(script.tiers.next_kv(order));
  BOOST_TEST(order.from == 1);
  BOOST_TEST(order.to == 0);
  int32_t n_rows = 0;
  for (const KvMove& move : order.moves) n_rows += move.n_rows;
  BOOST_TEST(n_rows == 10);  // the prompt; the first token has no keys yet
  BOOST_TEST(script.tiers.unit(1).pool().n_held() == 3);
  BOOST_TEST(script.step(0) == "-");
  BOOST_TEST(script.tiers.request(1) != nullptr);
  std::vector<RequestId> failed;
  script.tiers.kv_done(order.id, true, failed);
  BOOST_TEST(script.tiers.unit(1).pool().n_held() == 0);
  BOOST_TEST(script.run(0) == "1:10+1!");
  script.tiers.finish(1, 0);
  BOOST_TEST(script.tiers.n_requests() == 0);
  BOOST_TEST(script.tiers.unit(0).pool().n_held() == 0);
}

BOOST_AUTO_TEST_CASE(choices_share_their_blocks_on_both_sides) {
  Script script(two_devices(UnitRole::kPrefill, UnitRole::kDecode));
  BOOST_REQUIRE(script.arrive(1, 10, {}, 3));
  while (script.run(1) != "-") {
  }
  script.tiers.plan();
  KvOrder order;
  BOOST_REQUIRE(script.tiers.next_kv(order));
  int32_t n_rows = 0;
  for (const KvMove& move : order.moves) n_rows += move.n_rows;
  BOOST_TEST(n_rows == 8 + 3 * 2);  // two blocks in common, one of two rows each
  std::vector<RequestId> failed;
  script.tiers.kv_done(order.id, true, failed);
  BOOST_TEST(script.tiers.unit(0).pool().n_held() == 5);
  BOOST_TEST(script.run(0) == "1:10+1! 1:10+1! 1:10+1!");
  for (int32_t choice = 0; choice < 3; ++choice) script.tiers.finish(1, choice);
  BOOST_TEST(script.tiers.unit(0).pool().n_held() == 0);
}

BOOST_AUTO_TEST_CASE(a_full_decode_unit_keeps_the_request_where_it_is) {
  TierConfig config = two_devices(UnitRole::kPrefill, UnitRole::kDecode);
  config.units[0].scheduling = unit_config(5);
  Script script(config);
  BOOST_REQUIRE(script.arrive(1, 10, {}, 1, 4));
  BOOST_REQUIRE(script.arrive(2, 6, {}, 1, 4));
  BOOST_TEST(script.run(1) == "1:0+10! 2:0+6!");
  script.tiers.plan();
  KvOrder order;
  std::vector<RequestId> failed;
  BOOST_REQUIRE(script.tiers.next_kv(order));
  script.tiers.kv_done(order.id, true, failed);
  script.tiers.plan();
  BOOST_TEST(!script.tiers.next_kv(order));
  BOOST_TEST(script.tiers.unit(1).n_running() == 1);
  BOOST_TEST(script.run(0) == "1:10+1!");
  script.tiers.finish(1, 0);
  script.tiers.plan();
  BOOST_REQUIRE(script.tiers.next_kv(order));
  script.tiers.kv_done(order.id, true, failed);
  BOOST_TEST(script.run(0) == "2:6+1!");
}

BOOST_AUTO_TEST_CASE(choices_that_can_never_be_handed_over_together_are_refused) {
  for (const size_t small : {0U, 1U}) {
    TierConfig config = two_devices(UnitRole::kPrefill, UnitRole::kDecode);
    config.units[small].scheduling = unit_config(8);
    Script script(config);
    BOOST_TEST(script.arrive(1, 9, {}, 4).error().code == "context_length_exceeded");
    BOOST_REQUIRE(script.arrive(2, 9, {}, 3));
    while (script.run(1) != "-") {
    }
    script.tiers.plan();
    KvOrder order;
    BOOST_TEST(script.tiers.next_kv(order));
  }
}

BOOST_AUTO_TEST_CASE(a_request_cancelled_between_two_units_frees_both) {
  for (const bool sent : {false, true}) {
    Script script(two_devices(UnitRole::kPrefill, UnitRole::kDecode));
    BOOST_REQUIRE(script.arrive(1, 10));
    script.run(1);
    script.tiers.plan();
    KvOrder order;
    if (sent) BOOST_REQUIRE(script.tiers.next_kv(order));
    script.tiers.cancel(1);
    std::vector<RequestId> failed;
    if (sent) script.tiers.kv_done(order.id, true, failed);
    BOOST_TEST(failed.empty());
    BOOST_TEST(!script.tiers.next_kv(order));
    BOOST_TEST(script.tiers.n_requests() == 0);
    BOOST_TEST(script.tiers.unit(0).pool().n_held() == 0);
    BOOST_TEST(script.tiers.unit(1).pool().n_held() == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_lost_unit_ends_what_it_held_and_the_rest_goes_on_elsewhere) {
  TierConfig config = two_devices(UnitRole::kThief, UnitRole::kServe);
  config.steal = StealMode::kOff;
  Script script(config);
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_TEST(script.step(0) == "1:0+10!");
  BOOST_REQUIRE(script.arrive(2, 6));
  script.tiers.step_failed(0);
  std::vector<RequestId> failed;
  script.tiers.cancel(1);  // as the engine does with all of a failed step
  script.tiers.device_lost(1, failed);
  BOOST_TEST(failed.empty());
  BOOST_TEST(script.tiers.degraded());
  BOOST_TEST(script.tiers.unit_of(2) == 1);
  BOOST_TEST(script.tiers.counters().rehomed == 1);
  BOOST_TEST(script.run(1) == "2:0+6!");
  BOOST_REQUIRE(script.arrive(3, 6));
  BOOST_TEST(script.tiers.unit_of(3) == 1);
  script.tiers.device_lost(0, failed);
  std::ranges::sort(failed);
  BOOST_TEST((failed == std::vector<RequestId>{2, 3}));
  for (const RequestId id : failed) script.tiers.cancel(id);
  BOOST_TEST(!script.tiers.serving());
  BOOST_TEST(script.arrive(4, 6).error().code == "device_lost");
}

// Its own device and the tower on it are still there.
BOOST_AUTO_TEST_CASE(a_unit_is_lost_with_any_of_its_devices) {
  TierConfig config = modality();
  config.units[0].device = 0;
  config.units[0].other_devices = {1, 2};
  config.units.push_back(
      {.device = 3, .role = UnitRole::kServe, .scheduling = unit_config(), .towers = {0}});
  Script script(config);
  BOOST_REQUIRE(script.arrive(1, 10));
  BOOST_TEST(script.step(0) == "1:0+10!");
  script.tiers.step_failed(0);
  std::vector<RequestId> failed;
  script.tiers.cancel(1);
  BOOST_REQUIRE(script.arrive(2, 6));
  script.tiers.device_lost(2, failed);
  BOOST_TEST(failed.empty());
  BOOST_TEST(script.tiers.unit_of(2) == 1);
  BOOST_TEST(script.step(0) == "-");
  BOOST_REQUIRE(script.arrive(3, 10, {image_at(0, 1, 8)}));
  BOOST_TEST(script.tiers.unit_of(3) == 1);
  BOOST_TEST(script.encode() == "1>3/0");
}

BOOST_AUTO_TEST_CASE(another_tower_encodes_what_a_lost_one_had) {
  TierConfig config = modality();
  config.towers.push_back({.device = 2, .n_buffers = 2});
  config.units[0].towers = {0, 1};
  Script script(config);
  BOOST_REQUIRE(script.arrive(1, 10, {image_at(0, 1, 8)}));
  BOOST_TEST(script.encode() == "0>1/0");
  std::vector<RequestId> failed;
  script.tiers.device_lost(0, failed);
  script.tiers.encode_failed(script.encodes[0], failed);
  BOOST_TEST(failed.empty());
  BOOST_TEST(script.encode() == "0>1/0");
  BOOST_TEST(script.encodes[1].items.size() == 1);
  // The last one gone, those who need a picture end, and text goes on.
  BOOST_REQUIRE(script.arrive(2, 6));
  script.tiers.device_lost(2, failed);
  BOOST_TEST((failed == std::vector<RequestId>{1}));
  failed.clear();
  script.tiers.encode_failed(script.encodes[1], failed);
  BOOST_TEST((failed == std::vector<RequestId>{1}));
  script.tiers.cancel(1);
  BOOST_TEST(script.run(0) == "2:0+6!");
  BOOST_TEST(script.arrive(3, 10, {image_at(0, 1, 8)}).error().code == "device_lost");
}

BOOST_AUTO_TEST_SUITE_END()
