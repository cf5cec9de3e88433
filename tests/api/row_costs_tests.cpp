// Proves that a request's row has its gaps between tokens, its trace and its share of the devices'
// energy, and that the server examines itself off the loop, once at a time.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <string>
#include <thread>
#include <utility>

#include "api/fixture.h"
#include "store/cost_account.h"

namespace hs::test {
namespace {

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";

struct CostsFixture : ApiFixture {
  CostsFixture() : priced(loop, workers, clock, cost_options()) {
    auto model = std::make_shared<ServedModel>();
    model->names = {"tiny"};
    spec.revision = "abcd";
    model->spec = &spec;
    model->prompts = &prompts;
    model->max_model_len = 256;
    priced.set_model(model, engine, 0.5);
  }
  ApiOptions cost_options() {
    ApiOptions out = options();
    out.costs = &costs;
    out.doctor = [this] {
      ++n_examined;
      worker = std::this_thread::get_id();
      return std::string(R"({"status":"OK","findings":[]})");
    };
    return out;
  }
  std::shared_ptr<RecordingWriter> begin(HttpRequest http) {
    auto writer = std::make_shared<RecordingWriter>();
    if (auto refusal = priced.check_head(http))
      writer->send(*std::move(refusal));
    else
      priced.handle(std::move(http), writer);
    return writer;
  }
  std::shared_ptr<RecordingWriter> ask() {
    HttpRequest http = request("POST", "/v1/chat/completions",
                               R"({"model":"tiny","messages":[{"role":"user","content":"hi"}]})");
    http.headers.push_back({"traceparent", std::string("00-") + kTrace + "-00f067aa0ba902b7-01"});
    const size_t before = engine.sinks.size();
    auto writer = begin(std::move(http));
    run_until(loop, [&] { return writer->done || engine.sinks.size() > before; }, "the engine");
    return writer;
  }

  CostAccount costs{clock, 0.36};
  std::atomic<int> n_examined = 0;
  std::thread::id worker;
  ApiHandler priced;
};

BOOST_FIXTURE_TEST_SUITE(row_costs_tests, CostsFixture)

BOOST_AUTO_TEST_CASE(a_row_has_gaps_trace_revision_energy_and_cost) {
  costs.set_power(1000.0);
  ask();
  clock.advance_us(1'000'000);
  sink().on_text(0, "a", {}, 1);
  int32_t n_tokens = 1;
  for (const auto& [gap_us, n_new] :
       {std::pair(10'000, 1), std::pair(20'000, 1), std::pair(30'000, 3)}) {
    clock.advance_us(gap_us);
    sink().on_text(0, "b", {}, n_tokens += n_new);
  }
  finish(FinishReason::kStop, n_tokens);
  const RequestRow& row = rows.back();
  BOOST_TEST(row.trace_id == kTrace);
  BOOST_TEST(row.revision == "abcd");
  BOOST_TEST(row.itl_p50_us == 10'000);  // 10, 10, 10, 10, 20
  BOOST_TEST(row.itl_p99_us == 20'000);
  BOOST_TEST(row.energy_uj == 1'060'000'000);  // 1.06 s of 1 kW
  BOOST_TEST(row.cost_micros == 106);          // of 0.36 for 3.6 MJ
}

BOOST_AUTO_TEST_CASE(without_a_meter_a_row_has_no_energy) {
  ask();
  clock.advance_us(1'000'000);
  finish();
  BOOST_TEST(rows.back().energy_uj == -1);
  BOOST_TEST(rows.back().cost_micros == -1);
  BOOST_TEST(rows.back().itl_p50_us == -1);
}

BOOST_AUTO_TEST_CASE(refused_requests_give_their_share_back) {
  costs.set_power(100.0);
  engine.refusal = Error{ErrorKind::kResourceExhausted, "full", "queue_full", ""};
  BOOST_TEST(ask()->status == 503);
  engine.refusal.reset();
  ask();
  clock.advance_us(1'000'000);
  finish();
  BOOST_TEST(rows.back().energy_uj == 100'000'000);  // all of it: nobody else is under way
}

BOOST_AUTO_TEST_CASE(the_server_examines_itself_on_a_worker_once_at_a_time) {
  const auto first = begin(request("GET", "/admin/doctor"));
  const auto second = begin(request("GET", "/admin/doctor"));
  BOOST_TEST(second->status == 503);
  BOOST_TEST(error_of(*second)["code"] == "examination_under_way");
  run_until(loop, [&] { return first->done; }, "an answer");
  BOOST_TEST(first->status == 200);
  BOOST_TEST(first->json()["status"] == "OK");
  BOOST_TEST(first->header("Cache-Control") == "no-store");
  BOOST_TEST((worker != std::this_thread::get_id()));
  const auto third = begin(request("GET", "/admin/doctor"));
  run_until(loop, [&] { return third->done; }, "an answer");
  BOOST_TEST(third->status == 200);
  BOOST_TEST(n_examined == 2);
}

BOOST_AUTO_TEST_CASE(a_server_that_cannot_examine_itself_says_so) {
  BOOST_TEST(get("/admin/doctor")->status == 404);  // the common fixture's
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs::test
