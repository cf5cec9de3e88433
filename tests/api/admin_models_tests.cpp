// The routes of models over a program that records what it was asked: fields are checked, refusals
// have their status, and a released model stays with the requests that have it.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "api/fixture.h"
#include "support/temp_dir.h"

namespace hs::test {
namespace {

class RecordingModels final : public ModelAdmin {
 public:
  const ModelStore& store() const override { return store_; }
  const HubEndpoint& endpoint() const override { return endpoint_; }
  PullJobs& jobs() override { return jobs_; }
  Result<LoadTarget> find(const std::string& name) const override {
    if (name != "org/tiny") return fail(ErrorKind::kNotFound, "No.", "model_not_stored", "model");
    return LoadTarget{name, "", "/models/tiny", {name}, nullptr};
  }
  MemoryFit memory_fit(const PullPlan&) const override { return {}; }
  Status load(LoadTarget target) override {
    if (busy) return fail(ErrorKind::kUnavailable, "Busy.", "model_changing");
    loaded = target.path;
    served.stage = ServedState::Stage::kLoading;
    served.model = target.model;
    return {};
  }
  Status unload() override {
    if (served.model.empty()) return fail(ErrorKind::kInvalidArgument, "None.", "no_model_loaded");
    served = {};
    return {};
  }
  ServedState state() const override { return served; }

  bool busy = false;
  std::string loaded;
  ServedState served;

 private:
  TempDir dir_;
  SystemClock clock_;
  ModelStore store_{dir_.path() / "models"};
  HubEndpoint endpoint_{.url = "http://127.0.0.1:1", .token = "", .offline = true};
  PullJobs jobs_{store_, endpoint_, clock_};
};

struct ModelsFixture : ApiFixture {
  ModelsFixture() { api.set_models(&models); }
  int status_of(const std::string& path, const std::string& body) {
    return post(path, body)->status;
  }
  RecordingModels models;
};

std::string code_of(const RecordingWriter& writer) {
  const auto code = writer.json()["error"]["code"];
  return code.is_string() ? code.get<std::string>() : "";
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(admin_models_tests, ModelsFixture)

BOOST_AUTO_TEST_CASE(a_load_is_begun_by_name_and_its_state_told) {
  const auto begun = post("/admin/models/load", R"({"model":"org/tiny"})");
  BOOST_TEST(begun->status == 202);
  BOOST_TEST(begun->json()["state"] == "loading");
  BOOST_TEST(models.loaded == "/models/tiny");
  BOOST_TEST(post("/admin/models/unload", "{}")->json()["state"] == "empty");
  BOOST_TEST(code_of(*post("/admin/models/unload", "{}")) == "no_model_loaded");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused_with_its_status) {
  BOOST_TEST(status_of("/admin/models/load", R"({"model":"org/none"})") == 404);
  models.busy = true;
  BOOST_TEST(status_of("/admin/models/load", R"({"model":"org/tiny"})") == 409);
  for (const char* body : {"{}", "[]", "{", R"({"model":5})", R"({"model":""})",
                           R"({"model":"org/tiny","path":"/etc"})"})
    BOOST_TEST(status_of("/admin/models/load", body) == 400, body);
  BOOST_TEST(status_of("/admin/models/remove", R"({"model":"org/tiny"})") == 404);
  BOOST_TEST(status_of("/admin/models/pull", R"({"model":"../x"})") == 400);
  BOOST_TEST(status_of("/admin/jobs/pull-9/cancel", "{}") == 404);
  BOOST_TEST(models.loaded.empty());
}

BOOST_AUTO_TEST_CASE(a_pull_becomes_a_job_that_tells_its_end) {
  const auto job = post("/admin/models/pull", R"({"model":"org/tiny@v1"})");
  BOOST_TEST(job->status == 202);
  BOOST_TEST(job->json()["model"] == "org/tiny@v1");
  while (!models.jobs().list().front().finished()) std::this_thread::yield();
  const auto jobs = get("/admin/jobs")->json()["jobs"];
  BOOST_REQUIRE(jobs.size() == 1U);
  BOOST_TEST(jobs[0]["state"] == "failed");
  BOOST_TEST(jobs[0]["error"]["code"] == "offline");
  const auto plan = post("/admin/models/pull", R"({"model":"org/tiny","dry_run":true})");
  BOOST_TEST(plan->status == 503);
  BOOST_TEST(code_of(*plan) == "offline");
}

BOOST_AUTO_TEST_CASE(an_empty_store_is_an_empty_list) {
  auto writer = get("/admin/models");
  run_until(loop, [&] { return writer->done; }, "the list");
  BOOST_TEST(writer->json()["models"].empty());
  BOOST_TEST(writer->json()["served"]["state"] == "empty");
  BOOST_TEST(writer->json()["free_bytes"].is_number());
}

BOOST_AUTO_TEST_CASE(without_a_store_the_routes_are_not_there) {
  api.set_models(nullptr);
  BOOST_TEST(get("/admin/models")->status == 404);
  BOOST_TEST(code_of(*get("/admin/jobs")) == "no_model_store");
}

BOOST_AUTO_TEST_CASE(a_released_model_goes_with_its_last_request) {
  const auto writer = post("/v1/chat/completions",
                           R"({"model":"tiny","messages":[{"role":"user","content":"hi"}]})");
  BOOST_TEST(!writer->done);
  api.release_model("requests under way");
  const auto ready = get("/ready");
  BOOST_TEST(ready->status == 503);
  BOOST_TEST(ready->json()["status"] == "loading");
  const auto refused = post("/v1/chat/completions", R"({"model":"tiny","messages":[]})");
  BOOST_TEST(refused->status == 503);
  BOOST_TEST(code_of(*refused) == "model_loading");
  BOOST_TEST(refused->header("Retry-After") == "1");
  BOOST_TEST(api.n_active() == 1U);
  BOOST_TEST(get("/v1/models")->json()["data"].empty());
  engine.sinks.back()->on_done({}, {}, nullptr);
  BOOST_TEST(writer->status == 200);
  BOOST_TEST(api.n_active() == 0U);
}

BOOST_AUTO_TEST_CASE(without_a_model_ready_says_whether_that_is_a_fault) {
  api.release_model("");
  api.forget_engine();
  api.set_no_model({});
  BOOST_TEST(get("/ready")->json()["status"] == "empty");
  BOOST_TEST(code_of(*post("/v1/chat/completions", "{}")) == "no_model");
  api.set_no_model(Error{ErrorKind::kDataLoss, "model.safetensors is damaged", "", ""});
  const auto ready = get("/ready");
  BOOST_TEST(ready->status == 503);
  BOOST_TEST(ready->json()["status"] == "failed");
  BOOST_TEST(ready->json()["phase"] == "model.safetensors is damaged");
  BOOST_TEST(get("/admin/state")->json()["status"] == "failed");
  load();
  BOOST_TEST(get("/ready")->status == 200);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
