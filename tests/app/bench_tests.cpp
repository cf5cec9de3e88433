// A bench's load is what was asked for and the same for the same seed, requests are played at their
// times or as many at once as allowed, and its percentiles are those of the textbook.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <memory>
#include <vector>

#include "app/bench_load.h"
#include "app/bench_play.h"
#include "app/bench_report.h"
#include "device/cpu/cpu_device.h"
#include "support/source_dir.h"

namespace hs {
namespace {

// Answers each request with two tokens, the oldest first, one request a poll.
class CountingEngine final : public Engine {
 public:
  Result<RequestId> submit(GenerateRequest, std::shared_ptr<RequestSink> sink) override {
    waiting_.push_back(std::move(sink));
    most_at_once = std::max(most_at_once, waiting_.size());
    return ++n_submitted;
  }
  void cancel(RequestId) override {}
  void poll() override {
    if (waiting_.empty()) return;
    const auto sink = waiting_.front();
    waiting_.pop_front();
    sink->on_text(0, "a", {}, 1);
    sink->on_text(0, "bc", {}, 3);
    sink->on_choice_finished(0, FinishReason::kLength, {});
    sink->on_done({.completion_tokens = 3}, {.total_us = 5}, nullptr);
  }
  EngineStats stats() const override { return {}; }
  std::vector<LaneTimeline> timeline() const override { return {}; }
  std::vector<std::string> links() const override { return {}; }
  bool idle() const override { return waiting_.empty(); }
  const EngineConfig& config() const override { return config_; }

  size_t most_at_once = 0;
  RequestId n_submitted = 0;

 private:
  EngineConfig config_;
  std::deque<std::shared_ptr<RequestSink>> waiting_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(bench_tests)

BOOST_AUTO_TEST_CASE(a_load_is_what_was_asked_for) {
  auto device = make_cpu_device({.index = 0, .threads = 1, .cores = {}});
  BOOST_REQUIRE(device);
  const auto model = load_model({.path = source_dir() + "/models/demo/qwen2_5_vl",
                                 .vision_devices = {device->get()},
                                 .language_devices = {device->get()}});
  BOOST_REQUIRE(model);
  BenchLoad load{.seed = 3,
                 .requests = 8,
                 .picture_requests = 3,
                 .images = 2,
                 .width = 112,
                 .height = 56,
                 .prompt_tokens = 30,
                 .output_tokens = 9,
                 .rate = 50};
  const auto traffic = make_bench_traffic(*model->prompts, load);
  BOOST_REQUIRE(traffic);
  BOOST_REQUIRE_EQUAL(traffic->requests.size(), 8U);
  BOOST_TEST(std::ranges::is_sorted(traffic->due_s));
  BOOST_TEST(traffic->due_s.size() == 8U);
  int n_with_pictures = 0;
  std::vector<uint64_t> pictures;
  for (const GenerateRequest& request : traffic->requests) {
    BOOST_TEST(request.max_tokens == 9);
    BOOST_TEST(request.ignore_eos);
    int64_t n_text = std::ssize(request.prompt.token_ids);
    for (const ImageSpan& span : request.prompt.spans) n_text -= span.count;
    BOOST_TEST(n_text >= 30);
    BOOST_TEST(n_text < 80);  // the template is part of it
    n_with_pictures += request.prompt.images.empty() ? 0 : 1;
    for (const auto& image : request.prompt.images) pictures.push_back(image->content_hash[0]);
  }
  BOOST_TEST(n_with_pictures == 3);
  std::ranges::sort(pictures);
  BOOST_TEST(pictures.size() == 6U);
  BOOST_TEST((std::ranges::adjacent_find(pictures) == pictures.end()));

  const auto again = make_bench_traffic(*model->prompts, load);
  load.seed = 4;
  const auto other = make_bench_traffic(*model->prompts, load);
  BOOST_REQUIRE(again && other);
  BOOST_TEST(traffic->requests[0].prompt.token_ids == again->requests[0].prompt.token_ids);
  BOOST_TEST(traffic->due_s == again->due_s);
  BOOST_TEST(traffic->requests[0].prompt.token_ids != other->requests[0].prompt.token_ids);
}

BOOST_AUTO_TEST_CASE(no_more_are_under_way_than_allowed) {
  const SystemClock clock;
  WakeUp wake;
  CountingEngine engine;
  const std::vector<GenerateRequest> requests(20);
  const auto played = play(engine, clock, wake, requests, {.due_s = {}, .at_once = 3});
  BOOST_REQUIRE(played);
  BOOST_TEST(engine.most_at_once == 3U);
  BOOST_REQUIRE_EQUAL(played->requests.size(), 20U);
  for (const PlayedRequest& request : played->requests) {
    BOOST_TEST(request.text == "abc");
    BOOST_TEST(request.n_tokens == 3);
    BOOST_TEST(request.gaps_us.size() == 2U);
    BOOST_TEST(request.usage.completion_tokens == 3);
  }
}

BOOST_AUTO_TEST_CASE(requests_come_at_their_times) {
  const SystemClock clock;
  WakeUp wake;
  CountingEngine engine;
  const std::vector<GenerateRequest> requests(3);
  const auto played = play(engine, clock, wake, requests, {.due_s = {0, 0.01, 0.02}});
  BOOST_REQUIRE(played);
  const auto& got = played->requests;
  BOOST_TEST(got[1].submitted_us - got[0].submitted_us >= 9'000);
  BOOST_TEST(got[2].submitted_us - got[0].submitted_us >= 19'000);
  BOOST_TEST(played->seconds >= 0.02);
}

BOOST_AUTO_TEST_CASE(percentiles_are_values_at_the_nearest_rank) {
  const std::vector<double> values{15, 20, 35, 40, 50};
  BOOST_TEST(percentile(values, 0.05) == 15);
  BOOST_TEST(percentile(values, 0.3) == 20);
  BOOST_TEST(percentile(values, 0.5) == 35);
  BOOST_TEST(percentile(values, 0.99) == 50);
  BOOST_TEST(percentile({40, 15}, 0.5) == 15);
  BOOST_TEST(percentile({}, 0.5) == 0);
}

BOOST_AUTO_TEST_CASE(the_report_tells_what_devices_that_share_a_model_read_of_each_other) {
  EngineStats before;
  before.all_reduce_bytes = 1000;
  EngineStats after = before;
  after.all_reduce_bytes = 5096;
  const BenchReport report(
      {.model = "m", .dtype = "f", .partition = {}, .cut = {}, .tensor_parallel = 2},
      {.requests = {}, .seconds = 1}, before, after);
  BOOST_TEST(report.json().find(R"("tensor_parallel":2,)") != std::string::npos, report.json());
  BOOST_TEST(report.json().find(R"("collective_bytes":4096,)") != std::string::npos);
  BOOST_TEST(report.table().find("4096 between devices that share") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
