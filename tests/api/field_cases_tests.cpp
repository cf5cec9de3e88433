// Faults that users of such servers have reported, as trials of the API: each case is the behaviour
// that is right.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <latch>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/fixture.h"

namespace hs::test {

using nlohmann::json;

namespace {

const std::string kPixel =
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg"
    "==";

const json kPicture = {
    {{"role", "user"}, {"content", {{{"type", "image_url"}, {"image_url", {{"url", kPixel}}}}}}}};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(field_cases_tests, ApiFixture)

BOOST_AUTO_TEST_CASE(a_stream_is_kept_alive_while_its_pictures_are_prepared) {
  std::latch in_worker(1);
  std::latch may_go(1);
  prompts.on_picture = [&] {
    in_worker.count_down();
    may_go.wait();
  };
  const json body = {{"model", "tiny"}, {"messages", kPicture}, {"stream", true}};
  const auto writer = send(request("POST", "/v1/chat/completions", body.dump()));
  in_worker.wait();
  api.tick();
  BOOST_TEST(!writer->streaming);
  clock.advance_us(11'000'000);
  api.tick();
  api.tick();
  BOOST_TEST(writer->body == ": keep-alive\n\n");
  prompts.refusal = Error{ErrorKind::kInvalidArgument, "bad picture", "invalid_image", ""};
  may_go.count_down();
  run_until(loop, [&] { return writer->done; }, "the end");
  // The stream has begun, so that the fault is an event, and the last is [DONE] all the same.
  BOOST_TEST(writer->status == 200);
  const auto events = writer->events();
  BOOST_REQUIRE(events.size() == 2U);
  BOOST_TEST(json::parse(events[0])["error"]["code"] == "invalid_image");
  BOOST_TEST(events[1] == "[DONE]");
}

BOOST_AUTO_TEST_CASE(an_answer_in_one_piece_is_never_begun_by_a_comment) {
  std::latch in_worker(1);
  std::latch may_go(1);
  prompts.on_picture = [&] {
    in_worker.count_down();
    may_go.wait();
  };
  const json body = {{"model", "tiny"}, {"messages", kPicture}};
  const auto writer = send(request("POST", "/v1/chat/completions", body.dump()));
  in_worker.wait();
  clock.advance_us(60'000'000);
  api.tick();
  BOOST_TEST(writer->body.empty());
  may_go.count_down();
  run_until(loop, [&] { return !engine.sinks.empty(); }, "the engine");
  api.tick();
  BOOST_TEST(writer->body.empty());
}

BOOST_AUTO_TEST_CASE(usage_comes_where_and_when_it_is_asked_for) {
  struct Case {
    json options;
    bool usage;
  };
  const Case cases[] = {{nullptr, false},
                        {json::object(), false},
                        {{{"include_usage", true}}, true},
                        {{{"include_usage", false}}, false}};
  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    for (const Case& c : cases) {
      BOOST_TEST_CONTEXT(path << " " << c.options.dump()) {
        const json body = {{"model", "tiny"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}},
                           {"prompt", "hi"},  {"stream", true},
                           {"n", 2},          {"stream_options", c.options}};
        const auto writer = post(path, body.dump());
        for (const int32_t choice : {0, 1}) {
          sink().on_text(choice, "x", {}, 1);
          sink().on_choice_finished(choice, FinishReason::kStop, "");
        }
        sink().on_done({.prompt_tokens = 7, .image_tokens = 4, .completion_tokens = 2}, {},
                       nullptr);
        int n_usage = 0;
        for (const std::string& event : writer->events()) {
          if (event == "[DONE]") continue;
          const json chunk = json::parse(event);
          BOOST_TEST(chunk.contains("usage") == c.usage);
          if (!chunk.contains("usage") || chunk["usage"].is_null()) continue;
          ++n_usage;
          BOOST_TEST(chunk["choices"].empty());
          BOOST_TEST(chunk["usage"]["completion_tokens"] == 2);
          BOOST_TEST(chunk["usage"]["prompt_tokens_details"]["image_tokens"] == 4);
        }
        BOOST_TEST(n_usage == (c.usage ? 1 : 0));
        BOOST_TEST(writer->events().back() == "[DONE]");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(ids_outside_the_vocabulary_are_named_with_the_limit) {
  const int32_t size = prompts.tokenizer().size();
  const std::pair<json, const char*> cases[] = {
      {{{"logit_bias", {{std::to_string(size), 1}}}}, "logit_bias"},
      {{{"logit_bias", {{"999999999", 1}}}}, "logit_bias"},
      {{{"allowed_token_ids", {size}}}, "allowed_token_ids"},
      {{{"stop_token_ids", {size}}}, "stop_token_ids"},
  };
  for (const auto& [fields, param] : cases) {
    BOOST_TEST_CONTEXT(fields.dump()) {
      const auto writer = chat(fields);
      BOOST_TEST(writer->status == 400);
      BOOST_TEST(error_of(*writer)["param"] == param);
      BOOST_TEST(error_of(*writer)["message"].get<std::string>().find(std::to_string(size)) !=
                 std::string::npos);
    }
  }
  chat({{"logit_bias", {{std::to_string(size - 1), -100}}}});
  BOOST_TEST(engine.requests.size() == 1U);
}

BOOST_AUTO_TEST_CASE(settings_beyond_openais_reach_the_engine) {
  chat({{"min_tokens", 3},
        {"logit_bias", {{"5", -100}}},
        {"allowed_token_ids", {5, 6}},
        {"bad_words", {"red"}},
        {"include_stop_str_in_output", true},
        {"priority", -7},
        {"cache_salt", "a"},
        {"user", "ann"},
        {"metadata", {{"team", "red"}}}});
  BOOST_REQUIRE(engine.requests.size() == 1U);
  const GenerateRequest& request = engine.requests[0];
  BOOST_TEST(request.min_tokens == 3);
  BOOST_REQUIRE(request.logit_bias.size() == 1U);
  BOOST_TEST(request.logit_bias[0].id == 5);
  BOOST_TEST(request.allowed_token_ids.size() == 2U);
  BOOST_TEST(!request.bad_words.empty());
  BOOST_TEST(request.include_stop);
  BOOST_TEST(request.priority == -7);
  BOOST_TEST(request.cache_salt != 0U);
  finish();
  const json params = json::parse(rows[0].params_json);
  BOOST_TEST(params["user"] == "ann");
  BOOST_TEST(params["metadata"]["team"] == "red");
  BOOST_TEST(params["priority"] == -7);
  chat({{"cache_salt", "b"}});
  BOOST_TEST(engine.requests[1].cache_salt != engine.requests[0].cache_salt);
  BOOST_TEST(engine.requests[1].bad_words.empty());
}

// No echo of bad bytes, no crash, always the same words.
BOOST_AUTO_TEST_CASE(bodies_that_are_no_json_are_refused_without_an_echo) {
  const std::string good = R"({"model":"tiny","messages":[{"role":"user","content":"x"}]})";
  const auto with = [](const std::string& content) {
    return R"({"model":"tiny","messages":[{"role":"user","content":")" + content + R"("}]})";
  };
  const std::string bad[] = {
      "",
      with("\xff\xfe"),
      with("\xc0\x80"),
      with("\\ud800"),
      with("\\ud800\\u0041"),
      with("a\nb"),
      std::string("\xff\xfe{\0}\0", 6),
      good + good,
      good.substr(0, good.size() - 1) + ",}",
      "// no\n" + good,
      std::string(100'000, '['),
      R"({"model":"tiny","temperature":1e400})",
      R"({"model":"tiny","temperature":NaN})",
      R"({"model":"tiny","temperature":Infinity})",
      R"({"model":'tiny'})",
      "{",
  };
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/tokenize",
                           "/detokenize", "/v1/responses/input_tokens"}) {
    for (const std::string& body : bad) {
      BOOST_TEST_CONTEXT(path << " " << body.substr(0, 60)) {
        const auto writer = post(path, body);
        BOOST_TEST(writer->status == 400);
        BOOST_TEST(error_of(*writer)["code"] == "invalid_json");
        BOOST_TEST(writer->body.find("tiny") == std::string::npos);
      }
    }
    for (const char* body : {"[]", "null", "5", "\"x\""})
      BOOST_TEST(error_of(*post(path, body))["code"] == "invalid_type", path << " " << body);
  }
  for (const std::string& body :
       {good, "\xEF\xBB\xBF" + good, with("\\u0000"), with("\\ud83d\\ude00")}) {
    const auto writer = post("/v1/chat/completions", body);
    BOOST_TEST(!writer->done, body);
    finish();
  }
}

// The table of routes is the router's own: a new route is in it without anybody thinking of it.
BOOST_AUTO_TEST_CASE(no_route_but_health_answers_without_a_key) {
  ApiKey user;
  user.name = "user";
  user.hash = hash_key("user-key");
  ApiKey admin = user;
  admin.name = "admin";
  admin.admin = true;
  admin.hash = hash_key("admin-key");
  api.set_keys({user, admin});
  for (const auto& [pattern, method] : ApiHandler::served_routes()) {
    std::string path(pattern);
    if (const size_t at = path.find("{id}"); at != path.npos) path.replace(at, 4, "x");
    for (const char* asked : {"GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"}) {
      for (const std::string key : {"", "Bearer wrong", "Bearer user-key", "bearer user-key"}) {
        BOOST_TEST_CONTEXT(asked << " " << path << " '" << key << "'") {
          HttpRequest http = request(asked, path);
          if (!key.empty()) http.headers.push_back({"authorization", key});
          const auto refusal = api.check_head(http);
          const int status = refusal ? refusal->status : 200;
          const bool is_good = key == "Bearer user-key" || key == "bearer user-key";
          const bool is_open = pattern == "/health";
          const bool is_admin = pattern == "/metrics" || pattern.starts_with("/admin/") ||
                                pattern.starts_with("/debug/");
          if (!is_good && !is_open)
            BOOST_TEST(status == 401);
          else if (is_admin)
            BOOST_TEST(status == 403);
          else if (asked == std::string("OPTIONS"))
            BOOST_TEST(status == 204);
          else
            BOOST_TEST(status == (asked == method ? 200 : 405));
        }
      }
    }
  }
  for (const char* path : {"//v1/models", "/v1/./models", "/V1/models", "/v1/models/",
                           "/v1%2fmodels", "/%2e%2e/v1/models", "/v1/models?api_key=user-key"}) {
    HttpRequest http = request("GET", path);
    BOOST_TEST(api.check_head(http)->status == 401, path);
    http.headers.push_back({"authorization", "Bearer user-key"});
    const auto refusal = api.check_head(http);
    BOOST_TEST((refusal && refusal->status == 404), path);
  }
}

BOOST_AUTO_TEST_CASE(names_of_models_are_exact) {
  for (const std::string& name : {std::string(), std::string("m "), std::string("../x"),
                                  std::string("TINY"), std::string(10'000, 'm')}) {
    const auto writer = chat({{"model", name}});
    BOOST_TEST(writer->status == 404, name.substr(0, 20));
    BOOST_TEST(writer->body.size() < 1000U);
  }
}

BOOST_AUTO_TEST_CASE(unknown_fields_are_ignored_on_every_route) {
  const json body = {{"model", "tiny"},
                     {"messages", {{{"role", "user"}, {"content", "hi"}}}},
                     {"prompt", "hi"},
                     {"frobnicate", {{"a", 1}}}};
  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    const auto writer = post(path, body.dump());
    BOOST_TEST(!writer->done, path);
    finish();
    BOOST_TEST(writer->status == 200, path);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
