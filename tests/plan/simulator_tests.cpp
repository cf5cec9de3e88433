// The simulator drives the real scheduler, repeats itself exactly, moves the bytes that the
// formulas say, and agrees with the closed form where nothing but work sets the pace.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <string>

#include "plan/arms.h"
#include "plan/arrivals.h"
#include "plan/shipped_data.h"
#include "plan/simulator.h"

namespace hs::test {
namespace {

struct Bench {
  explicit Bench(const std::string& model, RequestShape request, double spread = 0.5)
      : workload(uniform_workload(request, spread)) {
    const auto catalogue = read_catalogue(shipped_cards_toml(), "cards.toml").value();
    const auto shapes = read_model_shapes(shipped_models_toml(), "models.toml").value();
    for (const ModelShape& one : shapes) {
      if (one.name == model) shape = one;
    }
    options.link = catalogue.link;
    options.n_requests = 1500;
    consumer.emplace(shape, catalogue.card("rtx4090").value(), 1, catalogue.efficiency,
                     catalogue.link);
    datacenter.emplace(shape, catalogue.card("a100-80").value(), 1, catalogue.efficiency,
                       catalogue.link);
  }

  ArmModel model() const {
    return {shape, workload, options.limits, *consumer, *datacenter, options.link};
  }
  SimResult run(ArmKind kind, const Mix& mix) const {
    auto result = simulate(model().arm(kind, mix), shape, workload, options);
    BOOST_REQUIRE_MESSAGE(result.has_value(), result.error().message);
    return *std::move(result);
  }

  ModelShape shape;
  Workload workload;
  SimOptions options;
  std::optional<DeviceModel> consumer;
  std::optional<DeviceModel> datacenter;
};

RequestShape captioning() {
  return {.image_rows = {576}, .text_tokens = 32, .output_tokens = 64};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(simulator_tests)

BOOST_AUTO_TEST_CASE(every_request_is_answered_once_in_every_arm) {
  const Bench bench("qwen2.5-vl-7b", {{400, 300}, 20, 40});
  for (const ArmKind kind : kAllArms) {
    const SimResult result = bench.run(kind, {2, 2});
    BOOST_TEST(result.n_finished == 1500, to_string(kind));
    BOOST_TEST(result.n_refused + result.n_too_large == 0);
    BOOST_TEST(result.requests_per_s > 0);
    BOOST_TEST(result.ttft_ms.p50 <= result.ttft_ms.p90);
    BOOST_TEST(result.ttft_ms.p90 <= result.e2e_ms.p99);
    for (const SimLane& lane : result.lanes) {
      BOOST_TEST(lane.busy_us() <= result.total_us * 1.000001, lane.name);
      BOOST_TEST(lane.stolen_us <= lane.step_us);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_run_and_another_one_another) {
  Bench bench("llava-1.5-7b", captioning());
  bench.options.arrivals = ArrivalProcess::kPoisson;
  bench.options.rate = 10;
  const SimResult a = bench.run(ArmKind::kStealing, {1, 1});
  const SimResult b = bench.run(ArmKind::kStealing, {1, 1});
  BOOST_TEST(a.total_us == b.total_us);
  BOOST_TEST(a.e2e_ms.p99 == b.e2e_ms.p99);
  BOOST_TEST(a.steals == b.steals);
  bench.options.seed = 2;
  BOOST_TEST(bench.run(ArmKind::kStealing, {1, 1}).total_us != a.total_us);
}

BOOST_AUTO_TEST_CASE(bytes_that_move_are_those_of_the_formulas) {
  const Bench bench("qwen2.5-vl-7b", {{256}, 44, 20});
  const SimResult tiers = bench.run(ArmKind::kTwoTiers, {1, 1});
  BOOST_TEST(tiers.embedding_bytes == 1500LL * 256 * 3584 * 2);
  BOOST_TEST(tiers.kv_bytes == 0);
  const SimResult stage = bench.run(ArmKind::kStage, {1, 1});
  BOOST_TEST(stage.embedding_bytes == 0);  // the tower stands beside the prefill unit
  BOOST_TEST(stage.kv_bytes == 1500LL * 300 * 56 * 1024);
  const SimResult alone = bench.run(ArmKind::kDatacenter, {0, 2});
  BOOST_TEST(alone.embedding_bytes + alone.kv_bytes == 0);
}

BOOST_AUTO_TEST_CASE(one_request_alone_takes_what_its_orders_take) {
  Bench bench("llava-1.5-7b", {{576}, 32, 3}, 0);
  bench.options.arrivals = ArrivalProcess::kEven;
  bench.options.rate = 0.5;
  bench.options.n_requests = 20;
  bench.options.warmup_share = 0;
  const SimResult result = bench.run(ArmKind::kDatacenter, {0, 1});
  const int32_t rows[] = {576};
  const StepPart prompt[] = {{.first = 0, .count = 608, .sample = true}};
  const StepPart second[] = {{.first = 608, .count = 1, .sample = true}};
  const StepPart third[] = {{.first = 609, .count = 1, .sample = true}};
  const double first_us = bench.datacenter->encode_us(rows) + bench.datacenter->step_us(prompt);
  const double rest_us = bench.datacenter->step_us(second) + bench.datacenter->step_us(third);
  const auto near = boost::test_tools::tolerance(1e-5);
  BOOST_TEST(result.ttft_ms.p50 == first_us / 1000, near);
  BOOST_TEST(result.tpot_ms.p50 == rest_us / 2000, near);
  BOOST_TEST(result.e2e_ms.p99 == (first_us + rest_us) / 1000, near);
}

BOOST_AUTO_TEST_CASE(text_starts_sooner_when_pictures_are_encoded_elsewhere) {
  Bench bench("qwen2.5-vl-7b", {{1024}, 32, 64});
  bench.options.arrivals = ArrivalProcess::kPoisson;
  bench.options.rate = 4;
  const SimResult alone = bench.run(ArmKind::kDatacenter, {0, 1});
  const SimResult tiers = bench.run(ArmKind::kTwoTiers, {1, 1});
  BOOST_TEST(tiers.tpot_ms.p90 < alone.tpot_ms.p90);
}

BOOST_AUTO_TEST_CASE(a_replay_has_the_times_of_the_log) {
  Bench bench("llava-1.5-7b", captioning());
  bench.workload.requests = {{{576}, 10, 5}, {{}, 10, 5}, {{576}, 10, 5}};
  bench.workload.arrivals_us = {5'000'000, 7'000'000, 65'000'000};
  bench.options.arrivals = ArrivalProcess::kReplay;
  bench.options.warmup_share = 0;
  const SimResult real = bench.run(ArmKind::kDatacenter, {0, 1});
  BOOST_TEST(real.n_finished == 3);
  BOOST_TEST(real.total_us > 60e6);
  BOOST_TEST(real.total_us < 61e6);
  bench.options.speed = 10;
  BOOST_TEST(bench.run(ArmKind::kDatacenter, {0, 1}).total_us < 7e6);
}

BOOST_AUTO_TEST_CASE(a_full_queue_refuses) {
  Bench bench("llava-1.5-7b", captioning());
  bench.options.arrivals = ArrivalProcess::kBursts;
  bench.options.rate = 1000;
  bench.options.limits.max_queue = 16;
  const SimResult result = bench.run(ArmKind::kDatacenter, {0, 1});
  BOOST_TEST(result.n_refused > 0);
  BOOST_TEST(result.n_refused + result.n_finished == 1500);
}

BOOST_AUTO_TEST_CASE(the_timeline_holds_what_the_lanes_did) {
  Bench bench("llava-1.5-7b", captioning());
  bench.options.n_requests = 40;
  bench.options.timeline = true;
  const SimResult result = bench.run(ArmKind::kTwoTiers, {1, 1});
  BOOST_REQUIRE_EQUAL(result.timeline.size(), 2U);
  int64_t busy_us = 0;
  for (const TimelineEntry& entry : result.timeline[0].entries) {
    busy_us += entry.finished_us - entry.started_us;
  }
  BOOST_TEST(static_cast<double>(busy_us) == result.lanes[0].busy_us(),
             boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_CASE(a_model_that_does_not_fit_is_refused_by_the_card) {
  const Bench bench("qwen2.5-vl-32b", {{1024}, 32, 16});
  const auto result = simulate(bench.model().arm(ArmKind::kConsumer, {1, 0}), bench.shape,
                               bench.workload, bench.options);
  BOOST_REQUIRE(!result.has_value());
  BOOST_TEST(result.error().code == "does_not_fit");
  BOOST_TEST(result.error().message.find("rtx4090") != std::string::npos);
  BOOST_TEST(bench.model().rate(ArmKind::kConsumer, {2, 0}) == 0);
  // As a thief it is left out.
  BOOST_TEST(bench.run(ArmKind::kStealing, {1, 1}).steals == 0);
}

// Long runs without queueing noise: there are always more requests than can be served, and their
// lengths differ, so that prompts come at random times. Blocks never run out in these, since the
// closed form knows no preemption.
BOOST_AUTO_TEST_CASE(the_closed_form_is_within_2_percent_of_the_simulator) {
  const uint64_t seed = 20260313;
  SeededRandom random(seed);
  fmt::print("closed form against simulator, seed {}\n", seed);
  const char* models[] = {"llava-1.5-7b", "qwen2.5-vl-3b", "qwen2.5-vl-7b"};
  for (int round = 0; round < 12; ++round) {
    const char* name = models[random.below(3)];
    const bool llava = std::string(name) == "llava-1.5-7b";
    const int32_t rows = llava ? 576 : static_cast<int32_t>(128 + random.below(1400));
    const auto text = static_cast<int32_t>(8 + random.below(600));
    const auto output = static_cast<int32_t>(8 + random.below(120));
    Bench bench(name, {{rows}, text, output}, 0.6);
    bench.options.n_requests = 4000;
    bench.options.seed = random.next();
    bench.options.limits.max_num_seqs = llava ? 8 : 24;  // what the caches have room for
    const ArmModel model = bench.model();
    for (const ArmKind kind : {ArmKind::kDatacenter, ArmKind::kConsumer, ArmKind::kTwoTiers}) {
      const Mix mix{static_cast<int32_t>(1 + random.below(3)),
                    static_cast<int32_t>(1 + random.below(3))};
      const SimResult result = bench.run(kind, mix);
      const double ratio = result.requests_per_s / model.rate(kind, mix);
      BOOST_TEST(std::abs(ratio - 1) < 0.02,
                 fmt::format("{} {} + {} tokens, {} out, {} {} + {}: {:.4f}", name, rows, text,
                             output, to_string(kind), mix.n_consumer, mix.n_datacenter, ratio));
      BOOST_TEST(result.preemptions == 0);
    }
  }
}

// The cache is what limits these: sequences grow into each other and the youngest is run again.
BOOST_AUTO_TEST_CASE(a_cache_that_is_too_small_is_within_2_percent_too) {
  const uint64_t seed = 20261130;
  SeededRandom random(seed);
  fmt::print("limited by the cache, seed {}\n", seed);
  int64_t preemptions = 0;
  for (int round = 0; round < 10; ++round) {
    const auto text = static_cast<int32_t>(8 + random.below(800));
    const auto output = static_cast<int32_t>(48 + random.below(200));
    const double spread = round % 2 == 0 ? 0 : 0.6;
    Bench bench("llava-1.5-7b", {{576}, text, output}, spread);
    bench.options.n_requests = 4000;
    bench.options.seed = random.next();
    const ArmModel model = bench.model();
    const Mix mix{1 + static_cast<int32_t>(random.below(2)), 0};
    const SimResult result = bench.run(ArmKind::kConsumer, mix);
    const double ratio = result.requests_per_s / model.rate(ArmKind::kConsumer, mix);
    BOOST_TEST(std::abs(ratio - 1) < 0.02, fmt::format("576 + {} tokens, {} out, spread {}: {:.4f}",
                                                       text, output, spread, ratio));
    preemptions += result.preemptions;
  }
  BOOST_TEST(preemptions > 0);
}

// Theft is decided by the scheduler as requests come, not by the linear programme, whose batch on
// the thief, bound by its blocks, is an estimate.
BOOST_AUTO_TEST_CASE(stealing_is_between_none_and_the_optimum) {
  Bench bench("llava-1.5-7b", {{576}, 32, 128});
  const ArmModel model = bench.model();
  const double none = bench.run(ArmKind::kTwoTiers, {2, 2}).requests_per_s;
  const double stolen = bench.run(ArmKind::kStealing, {2, 2}).requests_per_s;
  const double best = model.rate(ArmKind::kStealing, {2, 2});
  BOOST_TEST(stolen > none * 1.1);
  BOOST_TEST(stolen < best * 1.04);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
