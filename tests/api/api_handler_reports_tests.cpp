// Proves what the server tells about itself: metrics, timings and log rows, the timeline, and
// whether it is ready.
#include <boost/test/unit_test.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/api_handler.h"
#include "api/fixture.h"

namespace hs::test {

using nlohmann::json;

BOOST_FIXTURE_TEST_SUITE(api_handler_reports_tests, ApiFixture)

BOOST_AUTO_TEST_CASE(metrics_count_requests_and_carry_the_model) {
  engine.engine_stats.running = 3;
  engine.engine_stats.kv_blocks_used = 1;
  engine.engine_stats.kv_blocks_total = 4;
  engine.engine_stats.encode_failures = 1;
  engine.engine_stats.step_failures = 2;
  engine.engine_stats.non_finite_images = 4;
  engine.engine_stats.non_finite_requests = 5;
  chat({});
  sink().on_text(0, "x", {}, 1);
  clock.advance_us(20'000);
  sink().on_text(0, "y", {}, 2);
  sink().on_choice_finished(0, FinishReason::kStop, "");
  sink().on_done({.prompt_tokens = 7, .completion_tokens = 2},
                 {.first_token_us = 30'000, .total_us = 50'000}, nullptr);
  api.on_response_done("POST", "/v1/chat/completions", 200, 5000);
  api.on_response_done("BREW", "/secret/path", 404, 10);
  api.on_response_done("", "", 503, 10);  // too many connections
  api.on_response_done("GET", "/ready", 503, 10);
  const std::string text = get("/metrics")->body;
  for (const char* line :
       {"vllm:num_requests_running{model_name=\"tiny\",engine=\"0\"} 3\n",
        "vllm:kv_cache_usage_perc{model_name=\"tiny\",engine=\"0\"} 0.25\n",
        "vllm:request_success_total{model_name=\"tiny\",engine=\"0\",finished_reason=\"stop\"} 1\n",
        "vllm:inter_token_latency_seconds_bucket{model_name=\"tiny\",engine=\"0\",le=\"0.025\"} "
        "1\n",
        "vllm:inter_token_latency_seconds_bucket{model_name=\"tiny\",engine=\"0\",le=\"0.01\"} 0\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"tiny\",engine=\"0\"} 1\n",
        "http_requests_total{handler=\"/v1/chat/completions\",method=\"POST\",status=\"200\"} 1\n",
        "http_requests_total{handler=\"other\",method=\"other\",status=\"404\"} 1\n",
        "heteroserve_engine_failures_total{model_name=\"tiny\",engine=\"0\",kind=\"step\"} 2\n",
        "heteroserve_engine_failures_total{model_name=\"tiny\",engine=\"0\",kind=\"encode\"} 1\n",
        "heteroserve_non_finite_total{model_name=\"tiny\",engine=\"0\",kind=\"image\"} 4\n",
        "heteroserve_non_finite_total{model_name=\"tiny\",engine=\"0\",kind=\"request\"} 5\n",
        "heteroserve_requests_refused_total{model_name=\"tiny\",engine=\"0\"} 1\n",
        "heteroserve_requests_preparing{model_name=\"tiny\",engine=\"0\"} 0\n",
        "heteroserve_ready{model_name=\"tiny\",engine=\"0\"} 1\n"})
    BOOST_TEST(text.find(line) != std::string::npos, line);
  BOOST_TEST(text.find("secret") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(timings_and_the_row_say_what_moved_and_who_finished) {
  const auto moved = chat({{"timings", true}});
  sink().on_choice_finished(0, FinishReason::kStop, "");
  RequestTimings timings{.transfer_us = 250,
                         .total_us = 50'000,
                         .transfer_bytes = 1'048'576,
                         .transfer_path = "staged",
                         .stolen = true};
  sink().on_done({.prompt_tokens = 7, .completion_tokens = 1}, timings, nullptr);
  BOOST_TEST(moved->json()["timings"] ==
             json::parse(R"({"transfer_ms":0.25,"total_ms":50.0,"transfer_bytes":1048576,
      "kv_transfer_bytes":0,"transfer_path":"staged","transfer_share":0.005,"stolen":true})"));
  BOOST_TEST(rows.back().transfer_bytes == 1'048'576);
  BOOST_TEST(rows.back().transfer_path == "staged");
  BOOST_TEST(rows.back().kv_transfer_us == -1);
  BOOST_TEST(rows.back().kv_transfer_bytes == -1);
  BOOST_TEST(rows.back().stolen);

  const auto handed_over = chat({{"timings", true}});
  sink().on_choice_finished(0, FinishReason::kStop, "");
  timings = {.total_us = 50'000,
             .kv_transfer_us = 1000,
             .kv_transfer_bytes = 4096,
             .transfer_path = "peer"};
  sink().on_done({.prompt_tokens = 7, .completion_tokens = 1}, timings, nullptr);
  BOOST_TEST(handed_over->json()["timings"] ==
             json::parse(R"({"kv_transfer_ms":1.0,"total_ms":50.0,"transfer_bytes":0,
      "kv_transfer_bytes":4096,"transfer_path":"peer","transfer_share":0.02,"stolen":false})"));
  BOOST_TEST(rows.back().transfer_bytes == -1);
  BOOST_TEST(rows.back().kv_transfer_us == 1000);
  BOOST_TEST(rows.back().kv_transfer_bytes == 4096);

  const auto here = chat({{"timings", true}});
  finish();
  BOOST_TEST(here->json()["timings"] == json::parse(R"({"stolen":false})"));
  BOOST_TEST(rows.back().transfer_bytes == -1);
  BOOST_TEST(rows.back().transfer_path == "");
}

BOOST_AUTO_TEST_CASE(metrics_show_what_moved_and_what_each_device_did) {
  EngineStats& stats = engine.engine_stats;
  stats.steals = 5;
  stats.steal_returns = 2;
  stats.handoffs = 7;
  stats.rehomed = 8;
  stats.transfers = 3;
  stats.transfer_bytes = 4096;
  stats.kv_transfers = 1;
  stats.kv_transfer_bytes = 8192;
  stats.transfer_retries = 6;
  stats.degraded = true;
  stats.lanes = {{.device = "cpu:0",
                  .encode_us = 1'500'000,
                  .transfer_us = 250'000,
                  .step_us = 2'000'000,
                  .stolen_us = 500'000},
                 {.device = "cpu:1", .lost = true}};
  // Two requests that waited for one copy: it counts once.
  for (int i = 0; i < 2; ++i) {
    chat({});
    sink().on_choice_finished(0, FinishReason::kStop, "");
    sink().on_done({}, {.total_us = 10, .transfer_bytes = 4096, .kv_transfer_us = 2000}, nullptr);
  }
  const std::string text = get("/metrics")->body;
  const std::string labels = R"({model_name="tiny",engine="0")";
  for (const std::string& line :
       {"heteroserve_steals_total" + labels + "} 5\n",
        "heteroserve_steal_returns_total" + labels + "} 2\n",
        "heteroserve_handoffs_total" + labels + "} 7\n",
        "heteroserve_rehomed_total" + labels + "} 8\n",
        "heteroserve_transfers_total" + labels + ",kind=\"embedding\"} 3\n",
        "heteroserve_transfers_total" + labels + ",kind=\"kv\"} 1\n",
        "heteroserve_transfer_bytes_total" + labels + ",kind=\"embedding\"} 4096\n",
        "heteroserve_transfer_bytes_total" + labels + ",kind=\"kv\"} 8192\n",
        "heteroserve_transfer_retries_total" + labels + "} 6\n",
        "heteroserve_kv_transfer_seconds_count" + labels + "} 2\n",
        "heteroserve_kv_transfer_seconds_bucket" + labels + ",le=\"0.001\"} 0\n",
        "heteroserve_lane_busy_seconds_total" + labels + ",device=\"cpu:0\",kind=\"encode\"} 1.5\n",
        "heteroserve_lane_busy_seconds_total" + labels +
            ",device=\"cpu:0\",kind=\"transfer\"} 0.25\n",
        "heteroserve_lane_busy_seconds_total" + labels +
            ",device=\"cpu:0\",kind=\"language\"} 1.5\n",
        "heteroserve_lane_busy_seconds_total" + labels + ",device=\"cpu:0\",kind=\"stolen\"} 0.5\n",
        "heteroserve_device_lost" + labels + ",device=\"cpu:0\"} 0\n",
        "heteroserve_device_lost" + labels + ",device=\"cpu:1\"} 1\n",
        "heteroserve_degraded" + labels + "} 1\n"})
    BOOST_TEST(text.find(line) != std::string::npos, line);
}

BOOST_AUTO_TEST_CASE(ready_says_which_devices_are_lost) {
  engine.engine_stats.lanes = {{.device = "cpu:0"}, {.device = "cpu:1"}};
  BOOST_TEST(get("/ready")->json() == json::parse(R"({"status":"ready","phase":"serving",
      "percent":100,"lost_devices":[]})"));
  engine.engine_stats.degraded = true;
  engine.engine_stats.lanes[1].lost = true;
  const auto degraded = get("/ready");
  BOOST_TEST(degraded->status == 200);
  BOOST_TEST(degraded->json() == json::parse(R"({"status":"degraded","phase":"serving",
      "percent":100,"lost_devices":["cpu:1"]})"));
  engine.engine_stats.serving = false;
  engine.engine_stats.lanes[0].lost = true;
  const auto failed = get("/ready");
  BOOST_TEST(failed->status == 503);
  BOOST_TEST(failed->header("Retry-After") == "");
  BOOST_TEST(failed->json()["status"] == "failed");
  BOOST_TEST(failed->json()["lost_devices"] == json::parse(R"(["cpu:0","cpu:1"])"));
  BOOST_TEST(get("/health")->status == 200);
  BOOST_TEST(
      get("/metrics")->body.find("heteroserve_ready{model_name=\"tiny\",engine=\"0\"} 0\n") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_timeline_is_a_trace_of_the_lanes) {
  engine.lanes = {{"cpu:0", {{.kind = WorkOrder::Kind::kEncode, .finished_us = 5}}}, {"cpu:1", {}}};
  const auto writer = send(request("GET", "/debug/timeline"));
  run_until(loop, [&] { return writer->done; }, "the trace");
  BOOST_TEST(writer->status == 200);
  BOOST_TEST(writer->header("Content-Type") == "application/json");
  const json events = writer->json()["traceEvents"];
  BOOST_REQUIRE(events.size() == 4U);  // the process, two threads, one order
  BOOST_TEST(events[2]["name"] == "encode");
  BOOST_TEST(send(request("POST", "/debug/timeline"))->status == 405);
}

BOOST_AUTO_TEST_SUITE_END()

struct LoadingFixture : ApiFixture {
  LoadingFixture() : ApiFixture(false) {}
};

BOOST_FIXTURE_TEST_SUITE(api_handler_loading_tests, LoadingFixture)

BOOST_AUTO_TEST_CASE(while_loading_the_server_is_alive_and_not_ready) {
  api.set_loading("reading weights", 40);
  BOOST_TEST(get("/health")->status == 200);
  const auto ready = get("/ready");
  BOOST_TEST(ready->status == 503);
  BOOST_TEST(ready->json()["phase"] == "reading weights");
  BOOST_TEST(ready->json()["percent"] == 40);
  const auto refused = chat({});
  BOOST_TEST(refused->status == 503);
  BOOST_TEST(error_of(*refused)["code"] == "model_loading");
  BOOST_TEST(rows.back().error_code == "model_loading");
  BOOST_TEST(get("/v1/models")->json()["data"].empty());
  BOOST_TEST(get("/metrics")->status == 200);
  BOOST_TEST(error_of(*get("/debug/timeline"))["code"] == "model_loading");
  load();
  BOOST_TEST(get("/ready")->status == 200);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
