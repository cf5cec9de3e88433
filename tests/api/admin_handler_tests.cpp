// Proves what the administration routes tell, and that a request can be ended from there.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/fixture.h"

namespace hs::test {
namespace {

using nlohmann::json;

// With a log and settings, which the common fixture leaves out.
struct AdminFixture : ApiFixture {
  AdminFixture() : admin(loop, workers, clock, admin_options()) {
    auto model = std::make_shared<ServedModel>();
    model->names = {"tiny"};
    model->spec = &spec;
    model->prompts = &prompts;
    model->max_model_len = 256;
    model->partition = "modality";
    model->devices = {{"cpu:0", "A \"fast\" one", true, false, "named"}};
    engine.engine_stats.lanes = {{"cpu:0", false, 7, 3, 20, 5}, {"cpu:1", true, 0, 0, 0, 0}};
    engine.engine_stats.waiting = 2;
    admin.set_model(model, engine, 0.5);
  }

  ApiOptions admin_options() {
    ApiOptions out = options();
    out.settings = {{"server.port", "8080", "default", "--port", "HETEROSERVE_PORT", "A port"}};
    out.find_rows = [this](const RequestFilter& filter) -> Result<std::vector<RequestRow>> {
      asked = filter;
      if (log_fails) return fail(ErrorKind::kUnavailable, "The log is locked.");
      RequestRow row;
      row.id = "one";
      return std::vector{row};
    };
    return out;
  }

  std::shared_ptr<RecordingWriter> ask(HttpRequest http) {
    auto writer = std::make_shared<RecordingWriter>();
    if (auto refusal = admin.check_head(http))
      writer->send(*std::move(refusal));
    else
      admin.handle(std::move(http), writer);
    return writer;
  }
  std::shared_ptr<RecordingWriter> wait(HttpRequest http) {
    auto writer = ask(std::move(http));
    run_until(loop, [&] { return writer->done; }, "an answer");
    return writer;
  }
  // A streaming request that the engine has.
  std::shared_ptr<RecordingWriter> begin(const std::string& id) {
    HttpRequest http = request("POST", "/v1/chat/completions",
                               R"({"model":"tiny","stream":true,
                                  "messages":[{"role":"user","content":"hi"}]})");
    http.headers.push_back({"x-request-id", id});
    const size_t before = engine.sinks.size();
    auto writer = ask(std::move(http));
    run_until(loop, [&] { return engine.sinks.size() > before; }, "a request in the engine");
    return writer;
  }

  RequestFilter asked;
  bool log_fails = false;
  ApiHandler admin;
};

HttpRequest with_query(HttpRequest http, std::string query) {
  http.query = std::move(query);
  return http;
}

BOOST_FIXTURE_TEST_SUITE(admin_handler_tests, AdminFixture)

BOOST_AUTO_TEST_CASE(the_state_tells_devices_queues_and_links) {
  const json state = ask(request("GET", "/admin/state"))->json();
  BOOST_TEST(state["status"] == "ready");
  BOOST_TEST(state["model"] == "tiny");
  BOOST_TEST(state["partition"] == "modality");
  BOOST_TEST(state["waiting"] == 2);
  BOOST_TEST_REQUIRE(state["devices"].size() == 2U);
  const json& device = state["devices"][0];
  BOOST_TEST(device["description"] == "A \"fast\" one");
  BOOST_TEST(device["consumer"] == true);
  BOOST_TEST(device["datacenter"] == false);
  BOOST_TEST(device["busy_us"]["encode"] == 7);
  BOOST_TEST(device["busy_us"]["language"] == 15);
  BOOST_TEST(device["busy_us"]["stolen"] == 5);
  BOOST_TEST(state["devices"][1]["lost"] == true);
  BOOST_TEST(state["requests"].empty());
}

BOOST_AUTO_TEST_CASE(the_state_of_a_server_that_loads_is_short) {
  ApiHandler loading(loop, workers, clock, options());
  auto writer = std::make_shared<RecordingWriter>();
  loading.handle(request("GET", "/admin/state"), writer);
  BOOST_TEST(writer->status == 200);
  BOOST_TEST(writer->json()["status"] == "loading");
  BOOST_TEST(!writer->json().contains("devices"));
}

BOOST_AUTO_TEST_CASE(running_requests_are_listed_with_what_they_did_so_far) {
  begin("early");
  clock.advance_us(1000);
  begin("late");
  engine.sinks.front()->on_text(0, "hello", {}, 3);
  const json requests = ask(request("GET", "/admin/state"))->json()["requests"];
  BOOST_TEST_REQUIRE(requests.size() == 2U);
  BOOST_TEST(requests[0]["id"] == "early");
  BOOST_TEST(requests[0]["phase"] == "answering");
  BOOST_TEST(requests[0]["completion_tokens"] == 3);
  BOOST_TEST(requests[0]["age_us"] == 1000);
  BOOST_TEST(requests[1]["id"] == "late");
  BOOST_TEST(requests[1]["phase"] == "waiting");
  BOOST_TEST(requests[1]["stream"] == true);
}

BOOST_AUTO_TEST_CASE(a_running_request_is_cancelled_by_its_id) {
  const auto client = begin("client:7");
  const auto answer = ask(request("POST", "/admin/requests/client%3A7/cancel", "{}"));
  BOOST_TEST(answer->status == 200);
  BOOST_TEST(answer->json()["cancelled"] == 1);
  BOOST_TEST_REQUIRE(engine.cancelled.size() == 1U);
  const Error cancelled{ErrorKind::kCancelled, "cancelled", "", ""};
  engine.sinks.front()->on_done({}, {}, &cancelled);
  BOOST_TEST(client->done);
  BOOST_TEST(client->body.find("cancelled_by_admin") != std::string::npos);
  BOOST_TEST(rows.back().cancelled_by == "admin");
  BOOST_TEST(rows.back().error_code == "cancelled_by_admin");
}

BOOST_AUTO_TEST_CASE(a_request_that_is_not_there_cannot_be_cancelled) {
  BOOST_TEST(ask(request("POST", "/admin/requests/none/cancel", "{}"))->status == 404);
  BOOST_TEST(ask(request("POST", "/admin/requests/%zz/cancel", "{}"))->status == 400);
  BOOST_TEST(ask(request("POST", "/admin/requests//cancel", "{}"))->status == 404);
  BOOST_TEST(ask(request("GET", "/admin/requests/none/cancel"))->status == 405);
}

BOOST_AUTO_TEST_CASE(a_foreign_page_cannot_cancel) {
  HttpRequest form = request("POST", "/admin/requests/one/cancel", "");
  form.headers = {{"host", "127.0.0.1:8080"}, {"content-type", "text/plain"}};
  BOOST_TEST(ask(std::move(form))->status == 415);
}

BOOST_AUTO_TEST_CASE(log_rows_come_from_a_worker) {
  const auto writer =
      wait(with_query(request("GET", "/admin/requests"), "status=failed&limit=5&images=1"));
  BOOST_TEST(writer->status == 200);
  BOOST_TEST(writer->json()["rows"][0]["id"] == "one");
  BOOST_TEST(asked.status_min == 400);
  BOOST_TEST(asked.limit == 5);
  BOOST_TEST(asked.images_min == 1);
}

BOOST_AUTO_TEST_CASE(the_log_can_be_exported) {
  const auto writer = wait(with_query(request("GET", "/admin/requests"), "format=csv"));
  BOOST_TEST(writer->header("Content-Type").starts_with("text/csv"));
  BOOST_TEST(writer->body.starts_with("id,ts_ms,"));
}

BOOST_AUTO_TEST_CASE(a_log_that_cannot_be_read_says_so) {
  log_fails = true;
  BOOST_TEST(wait(request("GET", "/admin/requests"))->status == 503);
  BOOST_TEST(ask(with_query(request("GET", "/admin/requests"), "limit=x"))->status == 400);
}

BOOST_AUTO_TEST_CASE(without_a_log_there_is_nothing_to_list) {
  BOOST_TEST(send(request("GET", "/admin/requests"))->status == 404);
}

BOOST_AUTO_TEST_CASE(settings_name_their_origin) {
  const json settings = ask(request("GET", "/admin/settings"))->json()["settings"];
  BOOST_TEST(settings[0]["key"] == "server.port");
  BOOST_TEST(settings[0]["origin"] == "default");
  BOOST_TEST(settings[0]["flag"] == "--port");
}

BOOST_AUTO_TEST_CASE(the_timeline_can_be_cut_to_its_end) {
  clock.advance_us(10'000'000);
  TimelineEntry old;
  old.finished_us = 8'000'000;
  TimelineEntry recent;
  recent.started_us = 9'400'000;
  recent.finished_us = 9'600'000;
  engine.lanes = {{"cpu:0", {old, recent}}};
  const json whole = wait(request("GET", "/debug/timeline"))->json();
  BOOST_TEST(whole["traceEvents"].size() == 4U);
  BOOST_TEST(whole["otherData"]["now_us"] == 10'000'000);
  const json cut = wait(with_query(request("GET", "/debug/timeline"), "last_ms=1000"))->json();
  BOOST_TEST_REQUIRE(cut["traceEvents"].size() == 3U);
  BOOST_TEST(cut["traceEvents"][2]["ts"] == 9'400'000);
  BOOST_TEST(ask(with_query(request("GET", "/debug/timeline"), "last_ms=0"))->status == 400);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs::test
