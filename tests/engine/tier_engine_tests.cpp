// Engines over several devices: every partition gives the tokens of one device, bytes between
// devices equal the formula, work overlaps where it should, and faults of one device stay with it.
#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <random>
#include <thread>

#include "engine/engine_fixture.h"

using namespace hs;
using namespace hs::test;
using namespace std::chrono_literals;

namespace {

// Devices 0 .. n_consumer - 1 are the consumer pool, the others the datacenter pool.
struct TierFixture {
  TierFixture(Partition partition, StealMode steal, int32_t n_consumer = 1,
              int32_t n_datacenter = 1, LinkChoice transfer = LinkChoice::kAuto,
              EngineConfig config = small_config(), bool cut_before_projector = false,
              int32_t n_ranks = 1) {
    for (int32_t i = 0; i < n_consumer + n_datacenter; ++i) {
      devices.push_back(std::make_unique<FakeDevice>(i));
      (i < n_consumer ? consumer : datacenter).push_back(devices.back().get());
    }
    const Placement placement =
        place(consumer, datacenter, partition, steal != StealMode::kOff, n_ranks);
    fake = std::make_unique<FakeModel>(placement, 4, true, 1, cut_before_projector);
    config.steal = steal;
    EngineTopology topology = make_topology(fake->model, placement);
    topology.transfer = transfer;
    auto made = Engine::create(fake->model, topology, config, clock, [this] { wake.notify(); });
    BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
    engine = std::move(*made);
  }
  ~TierFixture() {
    for (FakeLanguage* language : fake->languages) language->gate.open();
    for (FakeVision* vision : fake->visions) vision->gate.open();
  }
  std::shared_ptr<RecordingSink> submit(const GenerateRequest& request) {
    auto sink = std::make_shared<RecordingSink>();
    const Result<RequestId> id = engine->submit(request, sink);
    BOOST_REQUIRE_MESSAGE(id.has_value(), (id ? "" : id.error().message));
    return sink;
  }
  void run_until(const std::function<bool()>& condition) {
    for (;;) {
      engine->poll();
      if (condition()) return;
      BOOST_REQUIRE_MESSAGE(wake.wait(), "the engine stands still");
    }
  }
  void run_until_idle() {
    run_until([this] { return engine->idle(); });
    BOOST_TEST(engine->stats().kv_blocks_used == 0);
    for (const auto& device : devices) BOOST_TEST(device->n_overlaps == 0);
  }

  SystemClock clock;
  std::vector<std::unique_ptr<FakeDevice>> devices;
  std::vector<Device*> consumer;
  std::vector<Device*> datacenter;
  std::unique_ptr<FakeModel> fake;
  WakeUp wake;
  std::unique_ptr<Engine> engine;
};

GenerateRequest text_request(int32_t n_prompt, int32_t seed, int32_t max_tokens) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < n_prompt; ++i) ids.push_back(3 + (i * 7 + seed) % 50);
  GenerateRequest request =
      make_request(make_prompt({text_part(ids)}), max_tokens, 1.0F, static_cast<uint64_t>(seed));
  request.ignore_eos = true;
  return request;
}

GenerateRequest picture_request(uint64_t picture, int32_t n_rows, int32_t max_tokens) {
  GenerateRequest request = make_request(
      make_prompt({text_part({5, 6}), picture_part(picture, n_rows), text_part({7, 8, 9})}),
      max_tokens, 1.0F, picture);
  request.ignore_eos = true;
  return request;
}

struct Arm {
  Partition partition;
  StealMode steal;
  int32_t n_consumer;
  int32_t n_datacenter;
  bool cut_before_projector = false;
  int32_t n_ranks = 1;
};

constexpr Arm kArms[] = {
    {Partition::kModality, StealMode::kOff, 1, 1},
    {Partition::kModality, StealMode::kOn, 1, 1},
    {Partition::kModality, StealMode::kAuto, 2, 2},
    {Partition::kStage, StealMode::kOff, 1, 1},
    {Partition::kStage, StealMode::kOff, 2, 2},
    {Partition::kColocated, StealMode::kOff, 1, 1},
    {Partition::kColocated, StealMode::kOff, 2, 2},
    {Partition::kModality, StealMode::kOff, 1, 1, true},
    {Partition::kModality, StealMode::kOn, 2, 2, true},
    {Partition::kStage, StealMode::kOff, 2, 1, true},
    {Partition::kColocated, StealMode::kOff, 1, 1, true},
    {Partition::kModality, StealMode::kOff, 1, 2, false, 2},
    {Partition::kModality, StealMode::kOn, 1, 3, false, 3},
    {Partition::kModality, StealMode::kAuto, 2, 4, false, 2},
    {Partition::kModality, StealMode::kOff, 1, 2, true, 2},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(tier_engine_tests)

BOOST_AUTO_TEST_CASE(every_partition_gives_the_same_tokens) {
  const uint32_t seed = test_seed();
  for (const Arm& arm : kArms) {
    BOOST_TEST_CONTEXT(to_string(arm.partition)
                       << " " << arm.n_consumer << "+" << arm.n_datacenter << ", cut before "
                       << arm.cut_before_projector << ", groups of " << arm.n_ranks << ", seed "
                       << seed) {
      std::mt19937 random(seed);
      TierFixture fixture(arm.partition, arm.steal, arm.n_consumer, arm.n_datacenter,
                          LinkChoice::kAuto, small_config(), arm.cut_before_projector, arm.n_ranks);
      std::vector<GenerateRequest> requests;
      std::vector<std::shared_ptr<RecordingSink>> sinks;
      for (int32_t i = 0; i < 40; ++i) {
        const auto max_tokens = static_cast<int32_t>(1 + random() % 12);
        GenerateRequest request =
            i % 3 == 0 ? picture_request(1 + random() % 8, static_cast<int32_t>(1 + random() % 9),
                                         max_tokens)
                       : text_request(static_cast<int32_t>(1 + random() % 40), i, max_tokens);
        request.n_choices = static_cast<int32_t>(1 + random() % 2);
        sinks.push_back(fixture.submit(request));
        requests.push_back(std::move(request));
        if (random() % 4 == 0) fixture.engine->poll();
      }
      fixture.run_until_idle();
      for (size_t i = 0; i < requests.size(); ++i) check_result(requests[i], *sinks[i]);
    }
  }
}

BOOST_AUTO_TEST_CASE(bytes_between_devices_equal_the_formula) {
  constexpr int64_t kRowBytes = kDim * 4;
  const GenerateRequest request = picture_request(1, 7, 6);
  const auto n_prompt = static_cast<int64_t>(request.prompt.token_ids.size());
  for (const LinkChoice transfer : {LinkChoice::kPeer, LinkChoice::kStaged}) {
    const std::string_view path = transfer == LinkChoice::kPeer ? "peer" : "staged";
    TierFixture modality(Partition::kModality, StealMode::kOff, 1, 1, transfer);
    const auto first = modality.submit(request);
    modality.run_until_idle();
    BOOST_TEST(first->timings.transfer_bytes == 7 * kRowBytes);
    BOOST_TEST(first->timings.kv_transfer_bytes == 0);
    BOOST_TEST(first->timings.transfer_path == path);
    BOOST_TEST(modality.engine->stats().transfer_bytes == 7 * kRowBytes);

    // 2 * layers * heads * d_head * tokens * bytes of a value.
    TierFixture stage(Partition::kStage, StealMode::kOff, 1, 1, transfer);
    const auto second = stage.submit(request);
    stage.run_until_idle();
    BOOST_TEST(second->timings.transfer_bytes == 0);
    BOOST_TEST(second->timings.kv_transfer_bytes == 2 * 1 * 1 * 4 * n_prompt * 4);
    BOOST_TEST(second->timings.kv_transfer_us >= 0);
    BOOST_TEST(stage.engine->stats().kv_transfers == 1);
    BOOST_TEST(stage.engine->stats().handoffs == 1);
    BOOST_TEST(stage.engine->stats().kv_transfer_bytes == second->timings.kv_transfer_bytes);
  }
}

BOOST_AUTO_TEST_CASE(features_that_cross_are_projected_once_and_kept) {
  TierFixture fixture(Partition::kModality, StealMode::kOff, 1, 1, LinkChoice::kAuto,
                      small_config(), true);
  const GenerateRequest request = picture_request(1, 7, 6);
  const auto first = fixture.submit(request);
  fixture.run_until_idle();
  check_result(request, *first);
  BOOST_TEST(first->timings.transfer_bytes == 7 * kFeatureDim * 4);
  BOOST_TEST(fixture.engine->stats().transfer_bytes == 7 * kFeatureDim * 4);
  BOOST_TEST(fixture.fake->projectors[0]->n_rows == 7);
  GenerateRequest again = picture_request(1, 7, 6);
  again.prompt = make_prompt({text_part({9, 8}), picture_part(1, 7), text_part({7})});
  const auto second = fixture.submit(again);
  fixture.run_until_idle();
  check_result(again, *second);
  BOOST_TEST(second->timings.transfer_bytes == 0);
  BOOST_TEST(fixture.fake->projectors[0]->n_rows == 7);
  BOOST_TEST(fixture.engine->stats().image_cache_hits == 1);
}

BOOST_AUTO_TEST_CASE(a_picture_that_the_projector_spoils_ends_its_request_alone) {
  TierFixture fixture(Partition::kModality, StealMode::kOff, 1, 1, LinkChoice::kAuto,
                      small_config(), true);
  fixture.fake->projectors[0]->nan_picture = 2;
  const GenerateRequest good = picture_request(1, 7, 6);
  const auto first = fixture.submit(good);
  const auto spoiled = fixture.submit(picture_request(2, 7, 6));
  fixture.run_until_idle();
  check_result(good, *first);
  BOOST_REQUIRE(spoiled->error);
  BOOST_TEST(spoiled->error->message == "The embeddings of a picture are not finite numbers.");
  BOOST_TEST(fixture.engine->stats().non_finite_images == 1);
  BOOST_TEST(fixture.engine->stats().encode_failures == 0);
}

// The second picture stays in the tower until a step has begun, and that step until the tower has
// the second picture: neither ends unless both run at once.
BOOST_AUTO_TEST_CASE(the_next_picture_encodes_while_the_prompt_before_it_prefills) {
  EngineConfig config = small_config();
  config.max_encode_images = 1;
  TierFixture fixture(Partition::kModality, StealMode::kOff, 1, 1, LinkChoice::kAuto, config);
  std::promise<void> step_begun;
  std::promise<void> second_encode_begun;
  auto step = step_begun.get_future();
  auto second_encode = second_encode_begun.get_future();
  std::atomic<int> n_met = 0;
  fixture.fake->vision->on_encode = [&](int call) {
    if (call != 1) return;
    second_encode_begun.set_value();
    n_met += step.wait_for(10s) == std::future_status::ready ? 1 : 0;
  };
  std::atomic<bool> first_step = true;
  fixture.fake->language->on_step = [&](const LanguageStep&) {
    if (!first_step.exchange(false)) return;
    step_begun.set_value();
    n_met += second_encode.wait_for(10s) == std::future_status::ready ? 1 : 0;
  };
  const GenerateRequest request = make_request(
      make_prompt({picture_part(1, 20), text_part({5, 6, 7}), picture_part(2, 20)}), 3);
  const auto sink = fixture.submit(request);
  fixture.run_until_idle();
  check_result(request, *sink);
  BOOST_TEST(n_met == 2);

  const std::vector<LaneTimeline> lanes = fixture.engine->timeline();
  const auto& encodes = lanes[1].entries;  // the language device's lane comes first
  const auto& steps = lanes[0].entries;
  BOOST_REQUIRE(encodes.size() == 2);
  const auto prefill = std::ranges::find(steps, WorkOrder::Kind::kStep, &TimelineEntry::kind);
  BOOST_REQUIRE(prefill != steps.end());
  BOOST_TEST(prefill->started_us <= encodes[1].finished_us);
  BOOST_TEST(encodes[1].started_us <= prefill->finished_us);
}

BOOST_AUTO_TEST_CASE(an_idle_consumer_device_answers_text) {
  TierFixture fixture(Partition::kModality, StealMode::kOn);
  FakeLanguage& home = *fixture.fake->languages[0];
  home.gate.close();
  const GenerateRequest first = text_request(10, 1, 5);
  const GenerateRequest second = text_request(10, 2, 5);
  const auto held = fixture.submit(first);
  fixture.engine->poll();
  BOOST_REQUIRE(home.gate.wait_for_visitor());
  const auto stolen = fixture.submit(second);
  fixture.run_until([&] { return stolen->done(); });
  check_result(second, *stolen);
  BOOST_TEST(stolen->timings.stolen);
  BOOST_TEST(!held->done());
  home.gate.open();
  fixture.run_until_idle();
  check_result(first, *held);
  BOOST_TEST(!held->timings.stolen);
  const EngineStats stats = fixture.engine->stats();
  BOOST_TEST(stats.steals == 1);
  bool seen = false;
  for (const LaneTimeline& lane : fixture.engine->timeline()) {
    for (const TimelineEntry& entry : lane.entries) {
      if (entry.stolen) BOOST_TEST(lane.lane == "cpu:0");
      seen |= entry.stolen;
    }
  }
  BOOST_TEST(seen);
}

BOOST_AUTO_TEST_CASE(a_damaged_transfer_is_repeated_by_another_path) {
  TierFixture fixture(Partition::kModality, StealMode::kOff);
  fixture.devices[1]->corrupt_copies = 1;
  const GenerateRequest request = picture_request(1, 7, 6);
  const auto first = fixture.submit(request);
  fixture.run_until_idle();
  check_result(request, *first);
  BOOST_TEST(first->timings.transfer_path == "staged");
  BOOST_TEST(fixture.engine->stats().transfer_retries == 1);
}

BOOST_AUTO_TEST_CASE(a_lost_language_device_ends_its_requests_and_the_thief_serves) {
  TierFixture fixture(Partition::kModality, StealMode::kOn);
  const GenerateRequest request = text_request(10, 1, 5);
  fixture.fake->languages[0]->on_step = [&](const LanguageStep&) {
    fixture.devices[1]->lost = true;
  };
  const auto lost = fixture.submit(request);
  fixture.run_until([&] { return lost->done(); });
  BOOST_REQUIRE(lost->error);
  BOOST_TEST(lost->error->code == "device_lost");
  BOOST_TEST(fixture.engine->stats().degraded);
  const GenerateRequest picture = picture_request(1, 7, 6);
  const auto next = fixture.submit(picture);
  fixture.run_until_idle();
  check_result(picture, *next);
}

// The copy stands behind the step that finds the device lost, and ends well all the same.
BOOST_AUTO_TEST_CASE(a_hand_over_to_a_device_that_was_lost_ends_its_request) {
  TierFixture fixture(Partition::kStage, StealMode::kOff);
  FakeLanguage& decode = *fixture.fake->languages[0];
  decode.gate.close();
  const auto first = fixture.submit(text_request(10, 1, 5));
  fixture.run_until([&] { return fixture.engine->stats().kv_transfers == 1; });
  BOOST_REQUIRE(decode.gate.wait_for_visitor());
  const auto second = fixture.submit(text_request(10, 2, 5));
  fixture.run_until([&] { return second->choices[0].n_tokens == 1; });
  decode.fails_lost = true;
  decode.fail_step = 0;
  decode.gate.open();
  fixture.run_until([&] { return first->done() && second->done(); });
  BOOST_REQUIRE(first->error && second->error);
  BOOST_TEST(first->error->code == "device_lost");
  BOOST_TEST(second->error->code == "device_lost");
}

BOOST_AUTO_TEST_CASE(a_lost_vision_device_leaves_text) {
  TierFixture fixture(Partition::kModality, StealMode::kOff);
  fixture.devices[0]->lost = true;
  const GenerateRequest picture = picture_request(1, 7, 6);
  const GenerateRequest text = text_request(10, 1, 5);
  const auto lost = fixture.submit(picture);
  const auto good = fixture.submit(text);
  fixture.run_until_idle();
  BOOST_REQUIRE(lost->error);
  BOOST_TEST(lost->error->code == "device_lost");
  check_result(text, *good);
  const auto refused = fixture.engine->submit(picture, std::make_shared<RecordingSink>());
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == ErrorKind::kUnavailable));
  const auto more = fixture.submit(text);
  fixture.run_until_idle();
  check_result(text, *more);
}

// The copy stands behind a step of the unit's lane, and finds its source lost.
BOOST_AUTO_TEST_CASE(a_tower_lost_before_its_rows_are_fetched_leaves_the_language_device) {
  TierFixture fixture(Partition::kModality, StealMode::kOff, 1, 1, LinkChoice::kStaged);
  FakeLanguage& language = *fixture.fake->languages[0];
  language.gate.close();
  const GenerateRequest text = text_request(10, 1, 5);
  const auto good = fixture.submit(text);
  fixture.run_until([] { return true; });
  BOOST_REQUIRE(language.gate.wait_for_visitor());
  const auto lost = fixture.submit(picture_request(1, 7, 6));
  fixture.run_until([&] { return fixture.engine->stats().images_encoded == 1; });
  fixture.devices[0]->lost = true;
  language.gate.open();
  fixture.run_until_idle();
  BOOST_TEST(lost->error.has_value());
  check_result(text, *good);
  const auto more = fixture.submit(text);
  fixture.run_until_idle();
  check_result(text, *more);
}

BOOST_AUTO_TEST_CASE(rows_for_a_unit_that_was_lost_meanwhile_give_their_buffer_back) {
  TierFixture fixture(Partition::kModality, StealMode::kOff);
  fixture.fake->visions[0]->gate.close();
  const auto picture = fixture.submit(picture_request(1, 7, 6));
  fixture.run_until([] { return true; });
  BOOST_REQUIRE(fixture.fake->visions[0]->gate.wait_for_visitor());
  fixture.devices[1]->lost = true;
  const auto text = fixture.submit(text_request(10, 1, 5));
  fixture.run_until([&] { return text->done(); });
  BOOST_TEST(fixture.engine->stats().degraded);
  fixture.fake->visions[0]->gate.open();
  fixture.run_until_idle();
  BOOST_TEST(picture->error.has_value());
}

// ---- one language model on several devices

// Few blocks, so that sequences are preempted, and prompts that begin alike.
BOOST_AUTO_TEST_CASE(ranks_agree_through_preemption_and_the_prefix_cache) {
  EngineConfig config = small_config();
  config.kv_blocks = 18;
  config.max_model_len = 64;
  TierFixture fixture(Partition::kModality, StealMode::kOff, 1, 2, LinkChoice::kAuto, config, false,
                      2);
  std::vector<GenerateRequest> requests;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int32_t i = 0; i < 12; ++i) {
    requests.push_back(i % 4 == 0 ? picture_request(1, 7, 20) : text_request(20, i % 2, 20));
    requests.back().n_choices = 1 + i % 3;
    sinks.push_back(fixture.submit(requests.back()));
  }
  fixture.run_until_idle();
  for (size_t i = 0; i < requests.size(); ++i) check_result(requests[i], *sinks[i]);
  const EngineStats stats = fixture.engine->stats();
  BOOST_TEST(stats.preemptions > 0);
  BOOST_TEST(stats.prefix_hits > 0);
  // Each rank's share of each step is on its device's lane.
  for (const LaneTimeline& lane : fixture.engine->timeline()) {
    const auto n_steps =
        std::ranges::count(lane.entries, WorkOrder::Kind::kStep, &TimelineEntry::kind);
    BOOST_TEST(n_steps == (lane.lane == "cpu:0" ? 0 : stats.steps), lane.lane);
  }
}

BOOST_AUTO_TEST_CASE(a_lost_rank_takes_its_unit_with_it_and_no_other) {
  TierFixture fixture(Partition::kModality, StealMode::kOff, 1, 4, LinkChoice::kAuto,
                      small_config(), false, 2);
  FakeLanguage& rank1 = *fixture.fake->languages[1];
  rank1.on_step = [&](const LanguageStep&) { fixture.devices[2]->lost = true; };
  fixture.fake->languages[2]->gate.close();  // the other unit is in a step meanwhile
  const GenerateRequest request = text_request(10, 1, 5);
  const auto lost = fixture.submit(request);
  const auto good = fixture.submit(request);
  fixture.run_until([&] { return lost->done(); });
  BOOST_REQUIRE(lost->error);
  BOOST_TEST(lost->error->code == "device_lost");
  fixture.fake->languages[2]->gate.open();
  const auto next = fixture.submit(request);
  const GenerateRequest picture = picture_request(1, 7, 6);
  const auto seen = fixture.submit(picture);
  fixture.run_until_idle();
  check_result(request, *good);
  check_result(request, *next);
  check_result(picture, *seen);
  const EngineStats stats = fixture.engine->stats();
  BOOST_TEST(stats.degraded);
  BOOST_TEST(stats.serving);
  BOOST_TEST(stats.step_failures == 1);
  for (const LaneStats& lane : stats.lanes) BOOST_TEST(lane.lost == (lane.device == "cpu:2"));
}

BOOST_AUTO_TEST_CASE(ranks_lost_in_the_same_step_are_all_known_as_lost) {
  TierFixture fixture(Partition::kModality, StealMode::kOff, 1, 3, LinkChoice::kAuto,
                      small_config(), false, 3);
  const auto lose_two = [&](const LanguageStep&) {
    for (const size_t device : {1U, 3U}) fixture.devices[device]->lost = true;
  };
  // Neither gets as far as a meeting before both are lost.
  for (const size_t rank : {0U, 2U}) fixture.fake->languages[rank]->on_step = lose_two;
  const auto lost = fixture.submit(text_request(10, 1, 5));
  fixture.run_until([&] { return lost->done(); });
  BOOST_REQUIRE(lost->error);
  BOOST_TEST(lost->error->code == "device_lost");
  const EngineStats stats = fixture.engine->stats();
  BOOST_TEST(!stats.serving);
  BOOST_TEST(stats.step_failures == 1);
  for (const LaneStats& lane : stats.lanes)
    BOOST_TEST(lane.lost == (lane.device == "cpu:1" || lane.device == "cpu:3"), lane.device);
}

BOOST_AUTO_TEST_CASE(a_step_that_one_rank_fails_ends_its_requests_and_the_unit_goes_on) {
  for (const size_t failing : {0U, 1U, 2U}) {
    TierFixture fixture(Partition::kModality, StealMode::kOff, 1, 3, LinkChoice::kAuto,
                        small_config(), false, 3);
    fixture.fake->languages[failing]->fail_step = 1;
    const GenerateRequest request = text_request(10, 1, 5);
    const auto failed = fixture.submit(request);
    fixture.run_until([&] { return failed->done(); });
    BOOST_REQUIRE(failed->error);
    BOOST_TEST(failed->error->message == "The language model failed: the fake device is lost");
    BOOST_TEST(failed->error->code == "engine_error");
    const auto next = fixture.submit(request);
    fixture.run_until_idle();
    check_result(request, *next);
    BOOST_TEST(!fixture.engine->stats().degraded);
  }
}

// Rank 1 waits for rank 0, whose share stands behind a picture and is dropped with its lane.
BOOST_AUTO_TEST_CASE(an_engine_that_ends_leaves_no_rank_waiting) {
  auto first = std::make_unique<FakeDevice>(0);
  auto second = std::make_unique<FakeDevice>(1);
  const Placement placement =
      place({first.get()}, {first.get(), second.get()}, Partition::kModality, false, 2);
  FakeModel fake(placement);
  SystemClock clock;
  WakeUp wake;
  auto engine = Engine::create(fake.model, make_topology(fake.model, placement), small_config(),
                               clock, [&] { wake.notify(); });
  BOOST_REQUIRE_MESSAGE(engine, (engine ? "" : engine.error().message));
  fake.vision->gate.close();
  BOOST_REQUIRE((*engine)->submit(picture_request(1, 7, 6), std::make_shared<RecordingSink>()));
  BOOST_REQUIRE((*engine)->submit(text_request(10, 1, 5), std::make_shared<RecordingSink>()));
  (*engine)->poll();
  BOOST_REQUIRE(fake.vision->gate.wait_for_visitor());
  std::atomic<bool> ended = false;
  std::jthread opener([&] {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (fake.languages[1]->n_ended == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    ended = fake.languages[1]->n_ended > 0;
    fake.vision->gate.open();
  });
  engine->reset();
  opener.join();
  BOOST_TEST(ended);
  BOOST_TEST(fake.languages[0]->n_ended == 0);
}

BOOST_AUTO_TEST_SUITE_END()
