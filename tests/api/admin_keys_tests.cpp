// Proves that keys can be made, listed and ended over the API, that a key is told once and counts
// at once, and what bad requests are told.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "api/fixture.h"
#include "support/temp_dir.h"

namespace hs::test {
namespace {

using nlohmann::json;

struct AdminKeysFixture : ApiFixture {
  AdminKeysFixture() : admin(loop, workers, clock, key_options()) {}

  ApiOptions key_options() {
    ApiOptions out = options();
    out.keys_path = (dir.path() / "keys.db").string();
    return out;
  }
  std::shared_ptr<RecordingWriter> ask(HttpRequest http, const std::string& key = "") {
    if (!key.empty()) http.headers.push_back({"authorization", "Bearer " + key});
    auto writer = std::make_shared<RecordingWriter>();
    if (auto refusal = admin.check_head(http))
      writer->send(*std::move(refusal));
    else
      admin.handle(std::move(http), writer);
    run_until(loop, [&] { return writer->done; }, "an answer");
    return writer;
  }
  std::shared_ptr<RecordingWriter> create(const std::string& body, const std::string& key = "") {
    return ask(request("POST", "/admin/keys/create", body), key);
  }

  TempDir dir;
  ApiHandler admin;
};

BOOST_FIXTURE_TEST_SUITE(admin_keys_tests, AdminKeysFixture)

BOOST_AUTO_TEST_CASE(the_first_key_is_told_once_and_locks_the_server_at_once) {
  const json before = ask(request("GET", "/admin/keys"))->json();
  BOOST_TEST(before["on"] == false);
  BOOST_TEST(before["keys"].empty());
  const auto made = create(R"({"name":"boss","admin":true})");
  BOOST_TEST_REQUIRE(made->status == 200);
  BOOST_TEST(made->header("Cache-Control") == "no-store");
  const auto key = made->json()["key"].get<std::string>();
  BOOST_TEST(ask(request("GET", "/admin/keys"))->status == 401);
  const auto listed = ask(request("GET", "/admin/keys"), key);
  BOOST_TEST(listed->json()["on"] == true);
  BOOST_TEST(listed->json()["keys"][0]["name"] == "boss");
  BOOST_TEST(listed->json()["keys"][0]["concurrency_max"].is_null());
  BOOST_TEST(listed->body.find(key) == std::string::npos);
  BOOST_TEST(listed->body.find("hash") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_key_that_is_revoked_is_refused_at_once) {
  const auto boss = create(R"({"name":"boss","admin":true})")->json()["key"].get<std::string>();
  const json made =
      create(R"({"name":"lab","concurrency_max":2,"per_minute_max":5})", boss)->json();
  const auto lab = made["key"].get<std::string>();
  BOOST_TEST(made["per_minute_max"] == 5);
  BOOST_TEST(ask(request("GET", "/version"), lab)->status == 200);
  BOOST_TEST(create(R"({"name":"other"})", lab)->status == 403);
  const auto ended = ask(request("POST", "/admin/keys/lab/revoke", "{}"), boss);
  BOOST_TEST(ended->status == 200);
  BOOST_TEST(ended->json()["revoked_ms"].is_number());
  BOOST_TEST(ask(request("GET", "/version"), lab)->status == 401);
}

BOOST_AUTO_TEST_CASE(a_name_that_is_taken_is_a_conflict_until_its_key_is_revoked) {
  const auto boss = create(R"({"name":"boss","admin":true})")->json()["key"].get<std::string>();
  BOOST_TEST(create(R"({"name":"lab"})", boss)->status == 200);
  const auto refused = create(R"({"name":"lab"})", boss);
  BOOST_TEST(refused->status == 409);
  BOOST_TEST(error_of(*refused)["code"] == "key_exists");
  BOOST_TEST(ask(request("POST", "/admin/keys/lab/revoke", "{}"), boss)->status == 200);
  const auto again = create(R"({"name":"lab"})", boss);
  BOOST_TEST_REQUIRE(again->status == 200);
  BOOST_TEST(ask(request("GET", "/version"), again->json()["key"].get<std::string>())->status ==
             200);
}

BOOST_AUTO_TEST_CASE(bad_requests_are_told_what_is_wrong) {
  for (const char* body :
       {"", "{", "[]", "{}", R"({"name":5})", R"({"name":"a b"})", R"({"name":"a","admin":1})",
        R"({"name":"a","concurrency_max":-1})", R"({"name":"a","per_minute":3})",
        R"({"name":"a","per_minute_max":1e9})"})
    BOOST_TEST(create(body)->status == 400, body);
  BOOST_TEST(ask(request("POST", "/admin/keys/none/revoke", "{}"))->status == 404);
  BOOST_TEST(ask(request("POST", "/admin/keys/%zz/revoke", "{}"))->status == 400);
  BOOST_TEST(ask(request("GET", "/admin/keys"))->json()["on"] == false);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs::test
