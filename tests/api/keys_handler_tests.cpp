// Proves that with keys on every route but /health and the page is denied without one, that
// administration takes an admin key, and that limits and the log go by key.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "api/fixture.h"

namespace hs::test {
namespace {

ApiKey key_of(const std::string& secret, bool admin = false) {
  ApiKey key;
  key.name = secret + "-name";
  key.hash = hash_key(secret);
  key.admin = admin;
  return key;
}

struct KeysFixture : ApiFixture {
  KeysFixture() {
    user.id = 1;
    admin.id = 2;
    user.concurrency_max = 1;
    api.set_keys({user, admin});
  }
  static HttpRequest with_key(HttpRequest http, const std::string& key) {
    http.headers.push_back({"authorization", "Bearer " + key});
    return http;
  }
  static HttpRequest chat_request(const std::string& more = "") {
    return request("POST", "/v1/chat/completions",
                   R"({"model":"tiny","messages":[{"role":"user","content":"hi"}])" + more + "}");
  }
  // Until the engine has it, or it is answered.
  std::shared_ptr<RecordingWriter> begin(HttpRequest http) {
    const size_t before = engine.sinks.size();
    auto writer = send(std::move(http));
    run_until(loop, [&] { return writer->done || engine.sinks.size() > before; }, "an answer");
    return writer;
  }
  static std::string code_of(const RecordingWriter& writer) {
    return writer.json()["error"]["code"].get<std::string>();
  }

  ApiKey user = key_of("hs-user");
  ApiKey admin = key_of("hs-admin", true);
};

constexpr const char* kGetRoutes[] = {"/v1/models",    "/v1/models/tiny", "/ready",
                                      "/version",      "/metrics",        "/debug/timeline",
                                      "/admin/state",  "/admin/settings", "/admin/requests",
                                      "/admin/doctor", "/v1/completions", "/anything/else"};

BOOST_FIXTURE_TEST_SUITE(keys_handler_tests, KeysFixture)

BOOST_AUTO_TEST_CASE(without_a_key_only_health_and_the_page_answer) {
  BOOST_TEST(get("/health")->status == 200);
  BOOST_TEST(send(request("OPTIONS", "/v1/models"))->status == 401);
  for (const char* path : kGetRoutes) {
    BOOST_TEST_CONTEXT(path) {
      const auto refused = get(path);
      BOOST_TEST(refused->status == 401);
      BOOST_TEST(code_of(*refused) == "invalid_api_key");
      BOOST_TEST(refused->header("WWW-Authenticate") == "Bearer");
    }
  }
  for (const char* path :
       {"/v1/chat/completions", "/tokenize", "/detokenize", "/admin/requests/x/cancel"})
    BOOST_TEST(send(request("POST", path, "{}"))->status == 401);
}

BOOST_AUTO_TEST_CASE(the_page_is_there_for_who_has_yet_to_give_a_key) {
  BOOST_TEST(api.check_head(request("GET", "/index.html")).has_value() == false);
}

BOOST_AUTO_TEST_CASE(a_wrong_key_is_as_good_as_none) {
  BOOST_TEST(send(with_key(request("GET", "/v1/models"), "hs-other"))->status == 401);
}

BOOST_AUTO_TEST_CASE(a_users_key_serves_and_does_not_administer) {
  BOOST_TEST(send(with_key(request("GET", "/v1/models"), "hs-user"))->status == 200);
  BOOST_TEST(send(with_key(request("GET", "/ready"), "hs-user"))->status == 200);
  BOOST_TEST(send(with_key(request("GET", "/nothing"), "hs-user"))->status == 404);
  for (const char* path :
       {"/metrics", "/debug/timeline", "/admin/state", "/admin/settings", "/admin/requests"}) {
    const auto refused = send(with_key(request("GET", path), "hs-user"));
    BOOST_TEST(refused->status == 403);
    BOOST_TEST(code_of(*refused) == "admin_key_needed");
  }
}

BOOST_AUTO_TEST_CASE(an_admins_key_does_both) {
  for (const char* path : {"/v1/models", "/metrics", "/admin/state", "/admin/settings"})
    BOOST_TEST(send(with_key(request("GET", path), "hs-admin"))->status == 200);
}

BOOST_AUTO_TEST_CASE(a_key_has_so_many_requests_at_a_time) {
  begin(with_key(chat_request(), "hs-user"));
  const auto refused = begin(with_key(chat_request(), "hs-user"));
  BOOST_TEST(refused->status == 429);
  BOOST_TEST(code_of(*refused) == "concurrency_limit_exceeded");
  BOOST_TEST(refused->header("Retry-After") == "1");
  BOOST_TEST(begin(with_key(chat_request(), "hs-admin"))->done == false);
  engine.sinks.front()->on_choice_finished(0, FinishReason::kStop, "");
  engine.sinks.front()->on_done({}, {}, nullptr);
  BOOST_TEST(begin(with_key(chat_request(), "hs-user"))->done == false);
}

BOOST_AUTO_TEST_CASE(only_an_admins_key_may_go_before_others) {
  const auto refused = begin(with_key(chat_request(R"(,"priority":-1)"), "hs-user"));
  BOOST_TEST(refused->status == 403);
  BOOST_TEST(code_of(*refused) == "admin_key_needed");
  BOOST_TEST(refused->json()["error"]["param"] == "priority");
  BOOST_TEST(engine.requests.empty());
  begin(with_key(chat_request(R"(,"priority":7)"), "hs-user"));
  BOOST_TEST_REQUIRE(engine.requests.size() == 1U);
  BOOST_TEST(engine.requests[0].priority == 7);
  begin(with_key(chat_request(R"(,"priority":-1)"), "hs-admin"));
  BOOST_TEST_REQUIRE(engine.requests.size() == 2U);
  BOOST_TEST(engine.requests[1].priority == -1);
}

BOOST_AUTO_TEST_CASE(the_engine_hears_whose_request_it_is) {
  begin(with_key(chat_request(), "hs-user"));
  begin(with_key(chat_request(), "hs-admin"));
  begin(with_key(chat_request(), "hs-admin"));
  BOOST_TEST_REQUIRE(engine.requests.size() == 3U);
  BOOST_TEST(engine.requests[0].tenant == 1U);
  BOOST_TEST(engine.requests[1].tenant == 2U);
  BOOST_TEST(engine.requests[2].tenant == 2U);
}

BOOST_AUTO_TEST_CASE(a_key_has_so_many_requests_a_minute) {
  admin.per_minute_max = 2;
  api.set_keys({user, admin});
  // The fixture's keys were read before with another limit, so the bucket is that of then.
  clock.advance_us(60'000'000);
  begin(with_key(chat_request(), "hs-admin"));
  begin(with_key(request("POST", "/tokenize", R"({"prompt":"a"})"), "hs-admin"));
  const auto refused = begin(with_key(chat_request(), "hs-admin"));
  BOOST_TEST(refused->status == 429);
  BOOST_TEST(refused->header("Retry-After") == "30");
  BOOST_TEST(send(with_key(request("GET", "/v1/models"), "hs-admin"))->status == 200);
  clock.advance_us(30'000'000);
  BOOST_TEST(begin(with_key(chat_request(), "hs-admin"))->done == false);
}

BOOST_AUTO_TEST_CASE(the_log_names_the_key_and_never_tells_it) {
  begin(with_key(chat_request(), "hs-user"));
  finish();
  BOOST_TEST_REQUIRE(rows.size() == 1U);
  BOOST_TEST(rows[0].key_name == "hs-user-name");
  begin(chat_request());
  BOOST_TEST(rows.back().status == 401);
  BOOST_TEST(rows.back().key_name == "");
}

BOOST_AUTO_TEST_CASE(a_key_that_is_revoked_while_its_body_comes_is_refused) {
  HttpRequest http = with_key(chat_request(), "hs-user");
  BOOST_TEST(!api.check_head(http).has_value());
  user.revoked_ms = 1;
  api.set_keys({user, admin});
  auto writer = std::make_shared<RecordingWriter>();
  api.handle(std::move(http), writer);
  BOOST_TEST(writer->status == 401);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs::test
