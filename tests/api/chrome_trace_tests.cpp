// Proves that a timeline becomes valid trace events: one named thread a lane, one event an order.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/chrome_trace.h"

namespace hs {
namespace {

using nlohmann::json;

// Two lanes: one that encodes and runs a stolen step, one that fetches, prefills and decodes.
std::vector<LaneTimeline> two_lanes() {
  TimelineEntry encode{.kind = WorkOrder::Kind::kEncode,
                       .started_us = 1000,
                       .finished_us = 4000,
                       .request = 7,
                       .n_requests = 2,
                       .n_rows = 512};
  TimelineEntry stolen{.started_us = 5000,
                       .finished_us = 5500,
                       .unit = 1,
                       .request = 9,
                       .n_requests = 1,
                       .n_rows = 20,
                       .n_sampled = 1,
                       .stolen = true};
  TimelineEntry transfer{.kind = WorkOrder::Kind::kTransfer,
                         .started_us = 4000,
                         .finished_us = 4100,
                         .n_requests = 2,
                         .n_rows = 512,
                         .bytes = 1 << 20};
  TimelineEntry kv{.kind = WorkOrder::Kind::kKv,
                   .started_us = 4100,
                   .finished_us = 4200,
                   .request = 7,
                   .n_requests = 1,
                   .n_rows = 40,
                   .bytes = 4096,
                   .failed = true};
  TimelineEntry prefill{.started_us = 4200,
                        .finished_us = 4900,
                        .request = 7,
                        .n_requests = 3,
                        .n_rows = 260,
                        .n_sampled = 3};
  TimelineEntry decode{.started_us = 4900,
                       .finished_us = 5000,
                       .request = 7,
                       .n_requests = 3,
                       .n_rows = 3,
                       .n_sampled = 3};
  return {{"cpu:0", {encode, stolen}}, {"a \"b\"\n", {transfer, kv, prefill, decode}}};
}

BOOST_AUTO_TEST_SUITE(chrome_trace_tests)

BOOST_AUTO_TEST_CASE(each_lane_is_a_thread_with_its_device_as_its_name) {
  const json trace = json::parse(chrome_trace(two_lanes(), 77));
  std::vector<std::string> names(2);
  for (const json& event : trace["traceEvents"])
    if (event["name"] == "thread_name")
      names.at(event["tid"].get<size_t>()) = event["args"]["name"].get<std::string>();
  BOOST_TEST(names[0] == "cpu:0");
  BOOST_TEST(names[1] == "a \"b\"\n");
}

BOOST_AUTO_TEST_CASE(each_order_is_a_complete_event) {
  const json trace = json::parse(chrome_trace(two_lanes(), 77));
  std::vector<json> events;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "X") events.push_back(event);
  BOOST_REQUIRE(events.size() == 6U);
  const std::pair<const char*, int> expected[] = {
      {"encode", 0},      {"stolen prefill", 0}, {"transfer embeddings", 1},
      {"transfer KV", 1}, {"prefill", 1},        {"decode", 1}};
  for (size_t i = 0; i < events.size(); ++i) {
    BOOST_TEST(events[i]["name"] == expected[i].first);
    BOOST_TEST(events[i]["tid"] == expected[i].second);
    BOOST_TEST(events[i]["pid"] == 1);
  }
  BOOST_TEST(events[0] == json::parse(R"({"name":"encode","ph":"X","ts":1000,"dur":3000,"pid":1,
      "tid":0,"args":{"unit":0,"request":7,"images":2,"rows":512}})"));
  BOOST_TEST(events[1]["args"] == json::parse(R"({"unit":1,"request":9,"sequences":1,"tokens":20,
      "sampled":1})"));
  BOOST_TEST(events[2]["args"] == json::parse(R"({"unit":0,"images":2,"rows":512,
      "bytes":1048576})"));
  BOOST_TEST(events[3]["args"] == json::parse(R"({"unit":0,"request":7,"requests":1,"rows":40,
      "bytes":4096,"failed":true})"));
}

BOOST_AUTO_TEST_CASE(a_server_that_has_done_nothing_gives_a_valid_trace) {
  BOOST_TEST(json::parse(chrome_trace({}, 0))["traceEvents"].size() == 1U);
  const std::vector<LaneTimeline> idle = {{"cpu:0", {}}};
  BOOST_TEST(json::parse(chrome_trace(idle, 0))["traceEvents"].size() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs
