// What runs where, shown by scripts of events and the orders that come back: towers for several
// units, stealing and going back, the hand-over after prefill, lost devices. No model, no thread,
// no time.
#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <random>

#include "engine/engine_fixture.h"
#include "engine/tier_scheduler.h"

using namespace hs;

namespace {

SchedulerConfig unit_config(int32_t n_blocks = 100) {
  return {.block_size = 4,
          .n_blocks = n_blocks,
          .max_model_len = 1000,
          .max_num_seqs = 8,
          .max_num_batched_tokens = 16,
          .max_encode_images = 2,
          .embedding_rows = 32,
          .max_encode_rows = 32};
}

// Device 0 has the tower and a unit of role `consumer`, device 1 a unit of role `datacenter`.
TierConfig two_devices(UnitRole consumer, UnitRole datacenter) {
  TierConfig config;
  config.towers = {{.device = 0, .n_buffers = 2}};
  config.units = {{.device = 1, .role = datacenter, .scheduling = unit_config(), .towers = {0}},
                  {.device = 0, .role = consumer, .scheduling = unit_config(), .towers = {0}}};
  config.steal = StealMode::kOn;
  return config;
}

// Device 0 has the tower, device 1 the only unit.
TierConfig modality() {
  TierConfig config = two_devices(UnitRole::kThief, UnitRole::kServe);
  config.units.pop_back();
  return config;
}

std::vector<ImageOutcome> outcomes_of(const TransferOrder& order, bool ok) {
  return std::vector<ImageOutcome>(order.items.size(),
                                   ok ? ImageOutcome::kOk : ImageOutcome::kFailed);
}

PromptImage image_at(int32_t first, uint64_t picture, int32_t n_rows) {
  return {.first = first, .key = {.content_hash = {picture, 0}, .n_rows = n_rows}};
}

struct Script {
  explicit Script(const TierConfig& config)
      : tiers(config), steps(config.units.size()), encodes(config.towers.size()) {}

  Result<int32_t> arrive(RequestId id, int32_t n_prompt, std::vector<PromptImage> images = {},
                         int32_t n_choices = 1, int32_t max_tokens = 50, uint64_t tenant = 0) {
    NewRequest request{.id = id,
                       .prompt = {},
                       .images = std::move(images),
                       .n_choices = n_choices,
                       .max_tokens = max_tokens,
                       .tenant = tenant};
    for (int32_t i = 0; i < n_prompt; ++i) {
      request.prompt.push_back(static_cast<int32_t>(id) * 1000 + i);
    }
    return tiers.arrived(std::move(request));
  }
  // "unit>request/image..." of each order.
  std::string encode() {
    std::string text;
    EncodeOrder order;
    while (tiers.next_encode(order)) {
      text += fmt::format("{}{}>", text.empty() ? "" : " ", order.unit);
      for (const EncodeOrder::Item& item : order.items) {
        text += fmt::format("{}/{}{}", item.request, item.image, order.buffer < 0 ? "!" : "");
      }
      encodes[static_cast<size_t>(order.tower)] = order;
    }
    return text.empty() ? "-" : text;
  }
  std::vector<RequestId> encode_done(size_t tower = 0, int64_t duration_us = 1000) {
    std::vector<RequestId> failed;
    const std::vector<ImageOutcome> outcomes(encodes[tower].items.size(), ImageOutcome::kOk);
    tiers.encode_done(encodes[tower], outcomes, duration_us, failed);
    return failed;
  }
  std::string step(int32_t unit) {
    StepOrder& order = steps[static_cast<size_t>(unit)];
    if (!tiers.next_step(unit, order)) return "-";
    std::string text;
    for (const StepOrder::Item& item : order.items) {
      text += fmt::format("{}{}:{}+{}{}", text.empty() ? "" : " ", item.sequence->request->id,
                          item.first, item.count, item.sample ? "!" : "");
    }
    return text;
  }
  void step_done(int32_t unit, int64_t duration_us = 1000) {
    std::vector<int32_t> tokens;
    for (const StepOrder::Item& item : steps[static_cast<size_t>(unit)].items) {
      if (item.sample) tokens.push_back(next_token++);
    }
    tiers.step_done(unit, tokens, duration_us);
  }
  std::string run(int32_t unit, int64_t duration_us = 1000) {
    std::string text = step(unit);
    if (text != "-") step_done(unit, duration_us);
    return text;
  }

  TierScheduler tiers;
  std::vector<StepOrder> steps;      // out, by unit
  std::vector<EncodeOrder> encodes;  // out, by tower
  int32_t next_token = 100'000;
};

}  // namespace

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

// ---- tenants

namespace {

// One unit that runs one request at a time.
TierConfig one_at_a_time(int32_t max_queue = 256) {
  TierConfig config;
  config.units = {{.device = 0, .scheduling = unit_config(), .towers = {}}};
  config.units[0].scheduling.max_num_seqs = 1;
  config.max_queue = max_queue;
  return config;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_tenants_many_requests_let_anothers_single_one_pass) {
  Script script(one_at_a_time());
  for (RequestId id = 1; id <= 5; ++id) BOOST_REQUIRE(script.arrive(id, 4, {}, 1, 1, 1));
  BOOST_TEST(script.run(0) == "1:0+4!");
  BOOST_REQUIRE(script.arrive(6, 4, {}, 1, 1, 2));
  BOOST_TEST(script.tiers.n_tenants_waiting() == 2);
  script.tiers.finish(1, 0);
  BOOST_TEST(script.run(0) == "6:0+4!");
  script.tiers.finish(6, 0);
  BOOST_TEST(script.run(0) == "2:0+4!");
  BOOST_TEST(script.tiers.n_tenants_waiting() == 1);
}

BOOST_AUTO_TEST_CASE(tenants_share_by_tokens) {
  Script script(one_at_a_time());
  // Of tenant 1 each takes 16 + 2, of tenant 2 each 4 + 2.
  for (RequestId id = 10; id < 14; ++id) BOOST_REQUIRE(script.arrive(id, 16, {}, 1, 1, 1));
  for (RequestId id = 20; id < 29; ++id) BOOST_REQUIRE(script.arrive(id, 4, {}, 1, 1, 2));
  std::string order;
  for (int i = 0; i < 12; ++i) {
    BOOST_REQUIRE(script.run(0) != "-");
    const RequestId id = script.steps[0].items.front().sequence->request->id;
    order += id < 20 ? 'a' : 'b';
    script.tiers.finish(id, 0);
  }
  BOOST_TEST(order == "abbbabbbabbb");
}

BOOST_AUTO_TEST_CASE(a_priority_goes_before_turns_and_classes_do_not_mix) {
  Script script(one_at_a_time());
  for (RequestId id = 1; id <= 3; ++id) BOOST_REQUIRE(script.arrive(id, 4, {}, 1, 1, 1));
  BOOST_TEST(script.run(0) == "1:0+4!");
  BOOST_REQUIRE(script.tiers.arrived({.id = 4,
                                      .prompt = std::vector<int32_t>(4, 4),
                                      .images = {},
                                      .max_tokens = 1,
                                      .priority = 5,
                                      .tenant = 2}));
  BOOST_REQUIRE(script.tiers.arrived({.id = 5,
                                      .prompt = std::vector<int32_t>(4, 5),
                                      .images = {},
                                      .max_tokens = 1,
                                      .priority = -5,
                                      .tenant = 1}));
  script.tiers.finish(1, 0);
  for (const RequestId id : {5U, 2U, 3U, 4U}) {
    BOOST_TEST(script.run(0) == fmt::format("{}:0+4!", id));
    script.tiers.finish(id, 0);
  }
}

BOOST_AUTO_TEST_CASE(a_full_queue_has_room_for_a_tenant_that_has_none_in_it) {
  Script script(one_at_a_time(2));
  BOOST_TEST(script.arrive(1, 4, {}, 1, 1, 1).has_value());
  BOOST_TEST(script.arrive(2, 4, {}, 1, 1, 1).has_value());
  BOOST_TEST(script.arrive(3, 4, {}, 1, 1, 1).error().code == "queue_full");
  BOOST_TEST(script.arrive(4, 4, {}, 1, 1, 2).has_value());
  BOOST_TEST(script.arrive(5, 4, {}, 1, 1, 2).error().code == "queue_full");
  script.tiers.cancel(4);
  BOOST_TEST(script.arrive(6, 4, {}, 1, 1, 2).has_value());
  for (const RequestId id : {1U, 2U, 6U}) script.tiers.cancel(id);
  BOOST_TEST(script.tiers.n_tenants_waiting() == 0);
  BOOST_TEST(script.tiers.n_requests() == 0);
}

// Random events against random topologies: everybody is served or told so, and the same events give
// the same orders.
std::string random_run(uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](uint32_t low, uint32_t high) {
    return static_cast<int32_t>(low + random() % (high - low + 1));
  };
  const int32_t kind = draw(0, 2);
  TierConfig config = kind == 0   ? two_devices(UnitRole::kThief, UnitRole::kServe)
                      : kind == 1 ? two_devices(UnitRole::kPrefill, UnitRole::kDecode)
                                  : two_devices(UnitRole::kServe, UnitRole::kServe);
  for (TierConfig::Unit& unit : config.units) {
    unit.scheduling = unit_config(draw(14, 40));
    unit.scheduling.max_num_batched_tokens = draw(1, 20);
    unit.scheduling.max_num_seqs = draw(1, 6);
    unit.scheduling.embedding_rows = unit.scheduling.max_encode_rows = 24;
    unit.scheduling.prefix_cache = draw(0, 1) == 1;
  }
  config.steal = draw(0, 1) == 0 ? StealMode::kOn : StealMode::kAuto;
  config.steal_pause_us = draw(1, 4) * 1'000;
  config.towers[0].n_buffers = draw(1, 2);
  Script script(config);
  TierScheduler& tiers = script.tiers;
  std::map<RequestId, std::vector<int32_t>> left;  // tokens that each choice still gives
  std::vector<bool> stepping(config.units.size(), false);
  std::vector<TransferOrder> transfers;
  std::vector<KvOrder> kv_orders;
  bool encoding = false;
  RequestId next_id = 1;
  std::string log;
  const bool loses = draw(0, 3) == 0;
  const int32_t lost_turn = loses ? draw(20, 200) : -1;
  int32_t lost_device = -1;
  for (int turn = 0; turn < 6000; ++turn) {
    std::vector<RequestId> failed;
    if (next_id <= 25 && draw(0, 3) == 0) {
      const RequestId id = next_id++;
      std::vector<PromptImage> images;
      int32_t n = draw(1, 8);
      for (int32_t i = draw(0, 2); i > 0; --i) {
        const int32_t rows = draw(1, 12);
        images.push_back(image_at(n, static_cast<uint64_t>(rows), rows));
        n += rows + draw(0, 4);
      }
      const std::vector<int32_t> wanted(static_cast<size_t>(draw(1, 3)), draw(1, 10));
      const auto taken = script.arrive(id, n + 1, images, static_cast<int32_t>(wanted.size()), 10,
                                       static_cast<uint64_t>(draw(0, 2)));
      if (taken) {
        left[id] = wanted;
      } else {
        // Many choices of a long prompt may not fit a small cache together.
        BOOST_REQUIRE(lost_device >= 0 || taken.error().code == "context_length_exceeded");
      }
    }
    tiers.plan();
    const std::string encoded = script.encode();
    encoding |= encoded != "-";
    log += "E" + encoded;
    TransferOrder transfer;
    while (tiers.next_transfer(transfer)) transfers.push_back(transfer);
    KvOrder kv;
    while (tiers.next_kv(kv)) {
      kv_orders.push_back(kv);
      log += fmt::format("K{}", kv.request);
    }
    for (int32_t unit = 0; unit < 2; ++unit) {
      if (stepping[static_cast<size_t>(unit)]) continue;
      const std::string text = script.step(unit);
      stepping[static_cast<size_t>(unit)] = text != "-";
      log += fmt::format("S{}{}\n", unit, text);
    }
    if (draw(0, 40) == 0 && !left.empty()) {
      const RequestId id = left.begin()->first;
      tiers.cancel(id);
      left.erase(id);
    }
    const auto device_of = [&](int32_t unit) {
      return config.units[static_cast<size_t>(unit)].device;
    };
    const auto end_step = [&](int32_t unit) {
      stepping[static_cast<size_t>(unit)] = false;
      const std::vector<StepOrder::Item> items = script.steps[static_cast<size_t>(unit)].items;
      std::vector<std::pair<RequestId, int32_t>> sampled;
      for (const StepOrder::Item& item : items) {
        const RequestId id = item.sequence->request->id;
        if (device_of(unit) == lost_device) failed.push_back(id);
        if (item.sample) sampled.emplace_back(id, item.sequence->choice);
      }
      if (device_of(unit) == lost_device) return tiers.step_failed(unit);
      script.step_done(unit, draw(100, 2'000));
      for (const auto& [id, choice] : sampled) {
        const auto it = left.find(id);
        if (it == left.end() || --it->second[static_cast<size_t>(choice)] > 0) continue;
        tiers.finish(id, choice);
        if (tiers.request(id) == nullptr) left.erase(it);
      }
    };
    const int32_t lane = draw(0, 4);
    if (lane == 0 && encoding) {
      encoding = false;
      if (lost_device == 0) {
        tiers.encode_failed(script.encodes[0], failed);
      } else {
        failed = script.encode_done(0, draw(100, 3'000));
      }
    } else if (lane == 1 && !transfers.empty()) {
      tiers.transfer_done(transfers.front(), outcomes_of(transfers.front(), lost_device < 0),
                          failed);
      transfers.erase(transfers.begin());
    } else if (lane == 2 && !kv_orders.empty()) {
      tiers.kv_done(kv_orders.front().id, lost_device < 0, failed);
      kv_orders.erase(kv_orders.begin());
    } else if (lane >= 3 && stepping[static_cast<size_t>(lane - 3)]) {
      end_step(lane - 3);
    }
    if (turn == lost_turn) {
      lost_device = draw(0, 1);
      tiers.device_lost(lost_device, failed);
    }
    for (const RequestId id : failed) {
      tiers.cancel(id);
      left.erase(id);
    }
    if (next_id > 25 && left.empty() && tiers.n_requests() == 0) break;
  }
  BOOST_TEST(left.empty(), "not everybody was served");
  BOOST_TEST(tiers.n_tenants_waiting() == 0);
  for (int32_t unit = 0; unit < 2; ++unit) {
    BOOST_TEST(tiers.unit(unit).pool().n_held() == 0);
    BOOST_TEST(tiers.unit(unit).slots().n_held() == 0);
  }
  return log;
}

BOOST_AUTO_TEST_CASE(same_events_give_same_orders_and_everybody_is_served) {
  const uint32_t first_seed = test::test_seed();
  for (uint32_t i = 0; i < 150; ++i) {
    BOOST_TEST_CONTEXT("seed " << first_seed + i) {
      const std::string once = random_run(first_seed + i);
      BOOST_TEST((once == random_run(first_seed + i)));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
