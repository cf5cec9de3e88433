// A profile is read as it was written, whatever is wrong in an edited one is refused in one line,
// and the times between its points are those computed by hand, in the simulator, too.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>

#include "plan/measured_times.h"
#include "plan/profile.h"
#include "plan/shipped_data.h"
#include "plan/simulator.h"

namespace hs::test {
namespace {

MeasuredTime us(double median) {
  return {median, median * 0.9, median * 1.2};
}

// Prompts take 100 us + 10 us a token + 0.01 us a pair of query and key; a decode step 300 us + 10
// us a sequence + 0.5 us for each token behind 16 of each sequence; a picture of n rows 2 n us.
Profile some_profile() {
  Profile profile;
  profile.file = "p.toml";
  profile.date = "2026-11-30T12:00:00Z";
  profile.machine = "a \"quoted\" machine";
  profile.model = "tiny";
  profile.dtype = "bfloat16";
  profile.n_layers = 32;
  profile.dim = 4096;
  profile.kv_width = 4096;
  profile.crowding = 1.25;
  for (const char* name : {"cpu:0", "cpu:1"}) {
    ProfiledDevice device;
    device.name = name;
    device.kv_tokens = 40'000;
    for (const int32_t n : {1, 64, 256}) {
      for (const int32_t before : {0, 1000}) {
        const double pairs = 1.0 * n * before + n * (n + 1) / 2.0;
        device.steps.push_back({1, n, before, false, us(100 + 10.0 * n + 0.01 * pairs)});
      }
    }
    for (const int32_t n : {1, 8}) {
      device.steps.push_back({n, 1, 16, true, us(300 + 10.0 * n)});
    }
    device.steps.push_back({8, 1, 1016, true, us(300 + 80 + 8 * 500.0)});
    device.encodes = {{1, 100, 400, us(200)}, {1, 600, 2400, us(1200)}, {2, 100, 400, us(360)}};
    device.pauses = {{1, us(20)}, {8, us(90)}};
    profile.devices.push_back(device);
  }
  profile.embeddings = {{64, 64 * 16384, us(30)}, {128, 128 * 16384, us(50)}};
  profile.keys_values = {{16, 16 * 1024, us(10)}, {32, 32 * 1024, us(30)}};
  return profile;
}

MeasuredTimes times() {
  const Profile profile = some_profile();
  return {profile, profile.devices.front()};
}

std::string refusal(const std::string& toml) {
  const auto profile = read_profile(toml, "p.toml");
  BOOST_REQUIRE(!profile.has_value());
  BOOST_TEST(profile.error().message.find('\n') == std::string::npos);
  return profile.error().message;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

ModelShape llava() {
  const auto shapes = read_model_shapes(shipped_models_toml(), "models.toml").value();
  return *std::ranges::find(shapes, "llava-1.5-7b", &ModelShape::name);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(profile_tests)

BOOST_AUTO_TEST_CASE(a_profile_is_read_as_it_was_written) {
  const Profile written = some_profile();
  const std::string toml = profile_toml(written);
  const auto profile = read_profile(toml, "p.toml");
  BOOST_REQUIRE_MESSAGE(profile.has_value(), profile.error().message);
  BOOST_TEST(profile_toml(*profile) == toml);
  BOOST_TEST(profile->machine == written.machine);
  BOOST_TEST(profile->devices.size() == 2U);
  BOOST_TEST(profile->devices[1].steps.size() == written.devices[1].steps.size());
  BOOST_TEST(profile->embeddings[1].time.high_us == 60.0);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_in_an_edited_profile_is_named) {
  const std::string good = profile_toml(some_profile());
  BOOST_TEST(refusal(with(good, "us = 30.000", "us = -1")).find("embeddings[0].us must be") !=
             std::string::npos);
  BOOST_TEST(refusal(with(good, "sequences = 8", "sequences = 0")).find("sequences must be") !=
             std::string::npos);
  BOOST_TEST(refusal(with(good, "format = 1", "format = 9")).find("format must be") !=
             std::string::npos);
  BOOST_TEST(refusal(with(good, "layers = 32", "layrs = 32")).find("layers is missing") !=
             std::string::npos);
  BOOST_TEST(refusal(with(good, "steps = [", "stepss = [")).find("steps needs") !=
             std::string::npos);
  BOOST_TEST(refusal("format = 1\n").find("is missing") != std::string::npos);
  BOOST_TEST(refusal("[[[").find("p.toml:1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_profile_of_another_model_is_refused) {
  const ModelShape shape = llava();
  Profile profile = some_profile();
  BOOST_TEST(profile.check_model(shape).has_value());
  profile.n_layers = 28;
  const Status refused = profile.check_model(shape);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().message.starts_with("--profile: p.toml was measured with tiny"));
  BOOST_TEST(profile.device("cpu:9").error().message ==
             "p.toml has no device \"cpu:9\", but cpu:0, cpu:1");
}

BOOST_AUTO_TEST_CASE(times_between_points_lie_on_straight_lines) {
  Curve curve;
  curve.add(10, 100);
  curve.add(2, 20);
  curve.add(20, 400);
  BOOST_TEST(curve.at(1) == 20.0);
  BOOST_TEST(curve.at(6) == 60.0);
  BOOST_TEST(curve.at(15) == 250.0);
  BOOST_TEST(curve.at(30) == 700.0);
  BOOST_TEST(Curve().at(5) == 0.0);
}

BOOST_AUTO_TEST_CASE(a_step_is_put_together_from_what_was_measured) {
  const MeasuredTimes measured = times();
  const auto near = boost::test_tools::tolerance(1e-6);
  BOOST_TEST(measured.tokens_us(128, 0) == 100 + 1280.0, near);
  // A prompt of 128 behind 500.
  const double pairs = 128 * 500 + 128 * 129 / 2.0;
  BOOST_TEST(measured.attention_us({.first = 500, .count = 128}) == 0.01 * pairs, near);
  // Decoding: 300 + 10 n in all, of which 100 + 10 n are the layers.
  BOOST_TEST(measured.tokens_us(8, 8) == 380.0, near);
  BOOST_TEST(measured.attention_us({.first = 516, .count = 1}) == 250.0, near);
  const int32_t one[] = {350};
  const int32_t two[] = {100, 100};
  BOOST_TEST(measured.encode_us(one) == 700.0, near);
  BOOST_TEST(measured.encode_us(two) == 360.0, near);
  BOOST_TEST(measured.pause_us(1) == 20.0);
  BOOST_TEST(measured.embedding_copy_us(96) == 40.0, near);
  BOOST_TEST(measured.kv_row_bytes() == 1024.0);
}

BOOST_AUTO_TEST_CASE(a_measured_device_serves_in_measured_time) {
  const Profile profile = some_profile();
  const ModelShape shape = llava();
  Card card;
  card.name = "cpu:0";
  const DeviceModel device(shape, card,
                           std::make_shared<MeasuredTimes>(profile, profile.devices.front()));
  BOOST_TEST((device.origin() == Origin::kMeasured));
  SimOptions options;
  options.arrivals = ArrivalProcess::kEven;
  options.rate = 1;
  options.n_requests = 10;
  options.warmup_share = 0;
  const SimArm arm{
      .name = "alone", .consumer = {}, .datacenter = {device}, .partition = Partition::kColocated};
  const Workload workload = uniform_workload({{576}, 32, 3}, 0);
  const auto result = simulate(arm, shape, workload, options);
  BOOST_REQUIRE_MESSAGE(result.has_value(), result.error().message);
  // The picture, the prompt with one token sampled, and both pauses.
  const double first_us = 2 * 576 + 20 + (100 + 6080 + 0.01 * 608 * 609 / 2 + 200) + 20;
  const auto near = boost::test_tools::tolerance(1e-5);
  BOOST_TEST(result->ttft_ms.p50 == first_us / 1000, near);
  const double next_us = 310 + 0.5 * (609 - 17) + 20;
  BOOST_TEST(result->tpot_ms.p50 == (next_us + 0.25) / 1000, near);
}

// Two devices that never idle take 1.25 x as long each.
BOOST_AUTO_TEST_CASE(devices_at_work_at_once_slow_each_other_down) {
  const Profile profile = some_profile();
  const ModelShape shape = llava();
  Card card;
  const DeviceModel device(shape, card,
                           std::make_shared<MeasuredTimes>(profile, profile.devices.front()));
  SimOptions options;
  options.n_requests = 600;
  options.limits.max_num_seqs = 8;
  const Workload workload = uniform_workload({{}, 100, 40}, 0.5);
  SimArm arm{
      .name = "both", .consumer = {}, .datacenter = {device}, .partition = Partition::kColocated};
  const auto alone = simulate(arm, shape, workload, options);
  arm.datacenter.push_back(device);
  const auto both = simulate(arm, shape, workload, options);
  BOOST_REQUIRE(alone.has_value() && both.has_value());
  const double gain = both->requests_per_s / alone->requests_per_s;
  BOOST_TEST(gain > 2 / 1.25 * 0.98);
  BOOST_TEST(gain < 2 / 1.25 * 1.08);  // pauses are not stretched
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
