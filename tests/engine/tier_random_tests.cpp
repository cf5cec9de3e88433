// Random events against random topologies: everybody is served or told so, and the same events give
// the same orders.
#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <random>

#include "engine/engine_fixture.h"
#include "engine/tier_script.h"

using namespace hs;
using namespace hs::test;

namespace {

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

}  // namespace

BOOST_AUTO_TEST_SUITE(tier_random_tests)

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
