// Proves the API's behaviour from request to last byte, with the engine's part played by the test:
// shapes of answers and streams, errors before and after the first byte, cancellation, routes.
#include <boost/test/unit_test.hpp>
#include <latch>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/api_handler.h"
#include "api/fixture.h"

namespace hs::test {

using nlohmann::json;

BOOST_FIXTURE_TEST_SUITE(api_handler_tests, ApiFixture)

BOOST_AUTO_TEST_CASE(a_whole_answer_has_openais_shape) {
  const auto writer = chat({{"temperature", 0}, {"timings", true}});
  BOOST_REQUIRE(engine.requests.size() == 1U);
  BOOST_TEST(engine.requests[0].temperature == 0.0F);
  BOOST_TEST(engine.requests[0].max_tokens == INT32_MAX);
  sink().on_text(0, "Hel", {}, 1);
  sink().on_text(0, "lo", {}, 2);
  BOOST_TEST(!writer->done);
  sink().on_choice_finished(0, FinishReason::kStop, "END");
  sink().on_done(
      {.prompt_tokens = 7, .image_tokens = 4, .cached_tokens = 3, .completion_tokens = 2},
      {.queue_us = 1500}, nullptr);
  BOOST_TEST(writer->status == 200);
  BOOST_TEST(writer->header("Content-Type") == "application/json");
  const json body = writer->json();
  BOOST_TEST(body["id"].get<std::string>().starts_with("chatcmpl-"));
  BOOST_TEST(body["object"] == "chat.completion");
  BOOST_TEST(body["model"] == "tiny");
  BOOST_TEST(body["system_fingerprint"] == "fp_test");
  BOOST_TEST(body["choices"].size() == 1U);
  const json choice = body["choices"][0];
  BOOST_TEST(choice["index"] == 0);
  BOOST_TEST(choice["message"]["role"] == "assistant");
  BOOST_TEST(choice["message"]["content"] == "Hello");
  BOOST_TEST(choice["message"].contains("refusal"));
  BOOST_TEST(choice["logprobs"].is_null());
  BOOST_TEST(choice["finish_reason"] == "stop");
  BOOST_TEST(choice["stop_reason"] == "END");
  BOOST_TEST(body["usage"] ==
             json::parse(R"({"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,
      "prompt_tokens_details":{"cached_tokens":3,"image_tokens":4,"text_tokens":3}})"));
  BOOST_TEST(body["timings"]["queue_ms"] == 1.5);
  BOOST_REQUIRE(rows.size() == 1U);
  BOOST_TEST(rows[0].status == 200);
  BOOST_TEST(rows[0].model == "tiny");
  BOOST_TEST(rows[0].finish_reason == "stop");
  BOOST_TEST(rows[0].completion_tokens == 2);
  BOOST_TEST(rows[0].queue_us == 1500);
  BOOST_TEST(rows[0].client == "127.0.0.1");
  BOOST_TEST(api.n_active() == 0U);
}

BOOST_AUTO_TEST_CASE(a_stream_begins_with_the_role_and_ends_with_usage_and_done) {
  const auto writer = chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  BOOST_TEST(!writer->streaming);
  sink().on_text(0, "Hel", {}, 1);
  sink().on_text(0, "", {}, 2);
  sink().on_text(0, "lo", {}, 3);
  finish(FinishReason::kLength, 3);
  BOOST_TEST(writer->done);
  BOOST_TEST(writer->header("Content-Type").starts_with("text/event-stream"));
  const auto events = writer->events();
  BOOST_REQUIRE(events.size() == 6U);  // role, two texts, finish, usage, [DONE]
  BOOST_TEST(events.back() == "[DONE]");
  std::vector<json> chunks;
  for (size_t i = 0; i + 1 < events.size(); ++i) chunks.push_back(json::parse(events[i]));
  for (const json& chunk : chunks) {
    BOOST_TEST(chunk["object"] == "chat.completion.chunk");
    BOOST_TEST(chunk["id"] == chunks[0]["id"]);
    BOOST_TEST(chunk.contains("usage"));
  }
  BOOST_TEST(chunks[0]["choices"][0]["delta"]["role"] == "assistant");
  BOOST_TEST(chunks[1]["choices"][0]["delta"]["content"] == "Hel");
  BOOST_TEST(chunks[1]["choices"][0]["finish_reason"].is_null());
  BOOST_TEST(chunks[2]["choices"][0]["delta"]["content"] == "lo");
  BOOST_TEST(chunks[2]["usage"].is_null());
  BOOST_TEST(chunks[3]["choices"][0]["finish_reason"] == "length");
  BOOST_TEST(chunks[3]["choices"][0]["delta"].empty());
  BOOST_TEST(chunks[4]["choices"].empty());
  BOOST_TEST(chunks[4]["usage"]["total_tokens"] == 10);
}

BOOST_AUTO_TEST_CASE(continuous_usage_counts_cached_tokens_from_the_first_chunk) {
  const auto writer =
      chat({{"stream", true}, {"stream_options", {{"continuous_usage_stats", true}}}});
  sink().on_prompt_cached(3);
  sink().on_text(0, "x", {}, 1);
  finish();
  for (const std::string& event : writer->events())
    if (event != "[DONE]")
      BOOST_TEST(json::parse(event)["usage"]["prompt_tokens_details"]["cached_tokens"] == 3, event);
}

BOOST_AUTO_TEST_CASE(without_include_usage_no_chunk_speaks_of_it) {
  const auto writer = chat({{"stream", true}});
  sink().on_text(0, "x", {}, 1);
  finish();
  BOOST_TEST(writer->body.find("usage") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(choices_of_a_stream_carry_their_index_and_role) {
  const auto writer = chat({{"stream", true}, {"n", 2}});
  BOOST_TEST(engine.requests[0].n_choices == 2);
  sink().on_text(1, "b", {}, 1);
  sink().on_text(0, "a", {}, 1);
  sink().on_choice_finished(1, FinishReason::kStop, "");
  finish();
  std::string order;
  for (const std::string& event : writer->events()) {
    if (event == "[DONE]") continue;
    const json choice = json::parse(event)["choices"][0];
    order += std::to_string(choice["index"].get<int>());
    order += choice["delta"].contains("role") ? 'r' : choice["finish_reason"].is_null() ? 't' : 'f';
  }
  BOOST_TEST(order == "1r1t0r0t1f0f");
}

BOOST_AUTO_TEST_CASE(logprobs_have_exact_bytes_and_no_infinities) {
  for (const bool stream : {false, true}) {
    const auto writer = chat({{"stream", stream}, {"logprobs", true}, {"top_logprobs", 2}});
    BOOST_TEST(engine.requests.back().n_logprobs == 2);
    const int32_t id = *prompts.tokenizer().id_of("<0xF0>");
    sink().on_text(0, "x",
                   {{id, -0.5F, {{id, -0.5F}, {5, -std::numeric_limits<float>::infinity()}}}}, 1);
    finish();
    const json holder = stream ? json::parse(writer->events()[1]) : writer->json();
    const json token = holder["choices"][0]["logprobs"]["content"][0];
    BOOST_TEST(token["bytes"] == json::parse("[240]"));
    BOOST_TEST(token["token"] == "\xEF\xBF\xBD");
    BOOST_TEST(token["logprob"] == -0.5);
    BOOST_TEST(token["top_logprobs"].size() == 2U);
    BOOST_TEST(token["top_logprobs"][1]["logprob"] == -9999.0);
  }
}

BOOST_AUTO_TEST_CASE(an_engine_fault_before_the_first_byte_is_a_status) {
  const auto writer = chat({{"stream", true}});
  const Error error{ErrorKind::kInternal, "cuda address 0xdeadbeef", "", ""};
  sink().on_done({}, {}, &error);
  BOOST_TEST(writer->status == 500);
  BOOST_TEST(error_of(*writer)["code"] == "engine_error");
  BOOST_TEST(writer->body.find("deadbeef") == std::string::npos);
  BOOST_TEST(rows.back().status == 500);
}

BOOST_AUTO_TEST_CASE(an_engine_fault_after_it_is_an_event_and_done) {
  const auto writer = chat({{"stream", true}});
  sink().on_text(0, "x", {}, 1);
  const Error error{ErrorKind::kInternal, "detail", "", ""};
  sink().on_done({}, {}, &error);
  BOOST_TEST(writer->done);
  const auto events = writer->events();
  BOOST_TEST(json::parse(events[events.size() - 2])["error"]["code"] == "engine_error");
  BOOST_TEST(events.back() == "[DONE]");
}

BOOST_AUTO_TEST_CASE(a_refusal_of_the_engine_names_the_messages) {
  engine.refusal = Error{ErrorKind::kInvalidArgument, "300 of 256", "context_length_exceeded", ""};
  const auto writer = chat({});
  BOOST_TEST(writer->status == 400);
  BOOST_TEST(error_of(*writer)["code"] == "context_length_exceeded");
  BOOST_TEST(error_of(*writer)["param"] == "messages");
  engine.refusal = Error{ErrorKind::kResourceExhausted, "full", "queue_full", ""};
  const auto full = chat({});
  BOOST_TEST(full->status == 503);
  BOOST_TEST(!full->header("Retry-After").empty());
}

BOOST_AUTO_TEST_CASE(a_leaving_client_cancels_in_every_stage) {
  const auto running = chat({});
  running->leave();
  BOOST_TEST(engine.cancelled == std::vector<RequestId>{1}, boost::test_tools::per_element());
  const Error cancelled{ErrorKind::kCancelled, "cancelled", "", ""};
  sink().on_done({.prompt_tokens = 5, .completion_tokens = 3}, {}, &cancelled);
  BOOST_REQUIRE(rows.size() == 1U);
  BOOST_TEST(rows[0].status == 499);
  BOOST_TEST(rows[0].cancelled_by == "client");
  BOOST_TEST(rows[0].completion_tokens == 3);

  const json body = {{"model", "tiny"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  const auto preparing = send(request("POST", "/v1/chat/completions", body.dump()));
  preparing->leave();
  run_until(loop, [&] { return api.n_active() == 0; }, "the end");
  BOOST_TEST(engine.sinks.size() == 1U);
  BOOST_TEST(rows.back().status == 499);
}

BOOST_AUTO_TEST_CASE(shutdown_ends_streams_with_an_error_event) {
  const auto writer = chat({{"stream", true}});
  sink().on_text(0, "x", {}, 1);
  api.begin_drain();
  BOOST_TEST(chat({})->status == 503);
  BOOST_TEST(get("/ready")->json()["status"] == "draining");
  api.cancel_all("The server is shutting down.");
  const Error cancelled{ErrorKind::kCancelled, "cancelled", "", ""};
  engine.sinks[0]->on_done({}, {}, &cancelled);
  const auto events = writer->events();
  BOOST_TEST(json::parse(events[events.size() - 2])["error"]["code"] == "shutting_down");
  BOOST_TEST(events.back() == "[DONE]");
}

BOOST_AUTO_TEST_CASE(a_silent_stream_gets_comments) {
  const auto writer = chat({{"stream", true}});
  api.tick();
  BOOST_TEST(!writer->streaming);
  clock.advance_us(11'000'000);
  api.tick();
  api.tick();
  BOOST_TEST(writer->body == ": keep-alive\n\n");
}

BOOST_AUTO_TEST_CASE(sampling_defaults_of_the_model_hold_until_the_request_says_otherwise) {
  spec.default_temperature = 0.1F;
  spec.default_top_p = 0.5F;
  spec.default_top_k = 7;
  spec.default_min_p = 0.25F;
  spec.default_repetition_penalty = 1.05F;
  chat({});
  finish();
  chat({{"temperature", 1}, {"top_p", 1}, {"top_k", 0}, {"min_p", 0}, {"repetition_penalty", 1}});
  finish();
  BOOST_REQUIRE(engine.requests.size() == 2U);
  const GenerateRequest& model = engine.requests[0];
  BOOST_TEST(model.temperature == 0.1F);
  BOOST_TEST(model.top_p == 0.5F);
  BOOST_TEST(model.top_k == 7);
  BOOST_TEST(model.min_p == 0.25F);
  BOOST_TEST(model.repetition_penalty == 1.05F);
  BOOST_TEST(model.frequency_penalty == 0);
  const GenerateRequest& own = engine.requests[1];
  BOOST_TEST(own.temperature == 1);
  BOOST_TEST(own.top_p == 1);
  BOOST_TEST(own.top_k == 0);
  BOOST_TEST(own.min_p == 0);
  BOOST_TEST(own.repetition_penalty == 1);
}

BOOST_AUTO_TEST_CASE(an_unknown_model_is_404_with_the_served_names) {
  const auto writer = chat({{"model", "nonsense"}});
  BOOST_TEST(writer->status == 404);
  BOOST_TEST(error_of(*writer)["code"] == "model_not_found");
  BOOST_TEST(error_of(*writer)["param"] == "model");
  BOOST_TEST(error_of(*writer)["message"].get<std::string>().find("alias") != std::string::npos);
  BOOST_TEST(rows.back().status == 404);
  BOOST_TEST(rows.back().error_code == "model_not_found");
  const auto alias = chat({{"model", "alias"}});
  finish();
  BOOST_TEST(alias->json()["model"] == "alias");  // as the request named it
}

BOOST_AUTO_TEST_CASE(the_row_of_a_refused_request_names_its_model) {
  BOOST_TEST(chat({{"temperature", 9}, {"stream", true}})->status == 400);
  BOOST_REQUIRE(rows.size() == 1U);
  BOOST_TEST(rows[0].status == 400);
  BOOST_TEST(rows[0].model == "tiny");
  BOOST_TEST(rows[0].stream);
  BOOST_TEST(rows[0].error_code == "invalid_value");
}

BOOST_AUTO_TEST_CASE(stop_token_ids_outside_the_vocabulary_are_refused) {
  BOOST_TEST(error_of(*chat({{"stop_token_ids", {999'999}}}))["param"] == "stop_token_ids");
}

BOOST_AUTO_TEST_CASE(defaults_come_from_the_model) {
  spec.default_temperature = 0.25F;
  spec.default_top_k = 9;
  chat({});
  chat({{"temperature", 1.5}, {"top_k", 0}});
  BOOST_TEST(engine.requests[0].temperature == 0.25F);
  BOOST_TEST(engine.requests[0].top_k == 9);
  BOOST_TEST(engine.requests[0].top_p == 1.0F);
  BOOST_TEST(engine.requests[1].temperature == 1.5F);
  BOOST_TEST(engine.requests[1].top_k == 0);
  BOOST_TEST(engine.requests[0].seed != engine.requests[1].seed);
}

BOOST_AUTO_TEST_CASE(routes_and_methods) {
  const auto unknown = get("/v1/nothing");
  BOOST_TEST(unknown->status == 404);
  BOOST_TEST(error_of(*unknown).size() == 4U);
  for (const char* path : {"//v1/models", "/v1/models/", "/V1/models", "/v1/./models",
                           "/v1%2fmodels", "/v1/embeddings"})
    BOOST_TEST(get(path)->status == 404, path);
  BOOST_TEST(error_of(*get("/v1/embeddings"))["code"] == "not_supported");
  const auto wrong = get("/v1/chat/completions");
  BOOST_TEST(wrong->status == 405);
  BOOST_TEST(wrong->header("Allow") == "POST, OPTIONS");
  const auto options = send(request("OPTIONS", "/v1/models"));
  BOOST_TEST(options->status == 204);
  BOOST_TEST(options->header("Allow") == "GET, HEAD, OPTIONS");
  for (const char* method : {"PUT", "DELETE", "PATCH", "TRACE", "POST"})
    BOOST_TEST(send(request(method, "/health"))->status == 405, method);
  const auto page = send(request("POST", "/"));
  BOOST_TEST(page->status == 405);
  BOOST_TEST(page->header("Allow") == "GET, HEAD, OPTIONS");
  BOOST_TEST(error_of(*page)["code"] == "method_not_allowed");
  BOOST_TEST(send(request("OPTIONS", "/"))->status == 204);
  BOOST_TEST(send(request("POST", "/nothing.js"))->status == 404);
}

BOOST_AUTO_TEST_CASE(a_body_that_does_not_say_that_it_is_json_is_refused) {
  for (const char* type : {"", "application/x-www-form-urlencoded", "text/plain"}) {
    HttpRequest post = request("POST", "/v1/chat/completions", "{}");
    post.headers.pop_back();
    if (*type != '\0') post.headers.push_back({"content-type", type});
    const auto writer = send(std::move(post));
    BOOST_TEST(writer->status == 415, type);
    BOOST_TEST(error_of(*writer)["code"] == "unsupported_media_type", type);
    BOOST_TEST(rows.back().error_code == "unsupported_media_type");
  }
  HttpRequest charset = request("POST", "/v1/chat/completions", "{}");
  charset.headers.back().value = "application/json; charset=utf-8";
  BOOST_TEST(!api.check_head(charset).has_value());
}

BOOST_AUTO_TEST_CASE(bodies_that_wait_for_a_worker_are_bounded_together) {
  constexpr int kThreads = 4;  // the default of set_worker_threads()
  WorkerPool blockers(loop, kThreads);
  std::latch gate(1);
  int n_blocked = kThreads;
  for (int i = 0; i < kThreads; ++i)
    BOOST_REQUIRE(blockers.submit([&] { gate.wait(); }, [&](const Status&) { --n_blocked; }));
  const auto body = [](size_t bytes) {
    const json fields = {{"model", "tiny"},
                         {"messages", {{{"role", "user"}, {"content", std::string(bytes, 'x')}}}}};
    return fields.dump();
  };
  constexpr size_t kMost = kHeldBodiesBytesMax * 6 / 10;
  const auto first = send(request("POST", "/v1/chat/completions", body(kMost)));
  BOOST_TEST(!first->done);
  BOOST_TEST(get("/metrics")
                 ->body.find("heteroserve_held_body_bytes{model_name=\"tiny\",engine="
                             "\"0\"} 6") != std::string::npos);
  for (const char* path : {"/v1/chat/completions", "/tokenize"}) {
    HttpRequest announced = request("POST", path);
    announced.headers.push_back({"content-length", std::to_string(kMost)});
    const auto before_it_is_read = api.check_head(announced);
    BOOST_REQUIRE(before_it_is_read.has_value());
    BOOST_TEST(before_it_is_read->status == 503);
    const auto second = send(request("POST", path, body(kMost)));  // as if it came in chunks
    BOOST_TEST(second->status == 503);
    BOOST_TEST(error_of(*second)["code"] == "queue_full");
    BOOST_TEST(!second->header("Retry-After").empty());
  }
  const auto small = send(request("POST", "/v1/chat/completions", body(10)));
  BOOST_TEST(!small->done);
  BOOST_TEST(rows.size() == 2U);  // the two of /v1/chat/completions
  BOOST_TEST(rows.back().error_code == "queue_full");

  gate.count_down();
  run_until(loop, [&] { return n_blocked == 0 && engine.sinks.size() == 2; }, "the workers");
  BOOST_TEST(get("/metrics")
                 ->body.find("heteroserve_held_body_bytes{model_name=\"tiny\",engine="
                             "\"0\"} 0\n") != std::string::npos);
  BOOST_TEST(post("/v1/chat/completions", body(kMost))->status == 0);  // with the engine now
}

BOOST_AUTO_TEST_CASE(models_are_listed_and_found_by_name) {
  const json list = get("/v1/models")->json();
  BOOST_TEST(list["object"] == "list");
  BOOST_REQUIRE(list["data"].size() == 2U);
  BOOST_TEST(list["data"][0]["id"] == "tiny");
  BOOST_TEST(list["data"][0]["object"] == "model");
  BOOST_TEST(list["data"][0]["max_model_len"] == 256);
  BOOST_TEST(list["data"][0]["input_modalities"] == json::parse(R"(["text","image"])"));
  BOOST_TEST(get("/v1/models/alias")->json()["id"] == "alias");
  BOOST_TEST(get("/v1/models/t%69ny")->json()["id"] == "tiny");
  BOOST_TEST(get("/v1/models/a/b")->status == 404);
  BOOST_TEST(get("/v1/models/%zz")->status == 400);
}

BOOST_AUTO_TEST_CASE(foreign_host_names_are_refused_on_loopback) {
  HttpRequest rebound = request("GET", "/v1/models");
  rebound.headers[0].value = "evil.example:8080";
  const auto writer = send(rebound);
  BOOST_TEST(writer->status == 403);
  BOOST_TEST(error_of(*writer)["code"] == "host_not_allowed");
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:80", "[::1]"}) {
    rebound.headers[0].value = host;
    BOOST_TEST(send(rebound)->status == 200, host);
  }
}

BOOST_AUTO_TEST_CASE(request_ids_come_back_or_are_made) {
  HttpRequest http = request("GET", "/health");
  http.headers.push_back({"x-request-id", "abc-123"});
  BOOST_TEST(send(http)->header("X-Request-Id") == "abc-123");
  http.headers.back().value = "bad id\r\n";
  BOOST_TEST(send(http)->header("X-Request-Id").starts_with("req-"));
}

BOOST_AUTO_TEST_CASE(tokenize_and_detokenize_are_each_others_inverse) {
  const json tokens =
      post("/tokenize",
           R"({"prompt":"a red circle","add_special_tokens":false,"return_token_strs":true})")
          ->json();
  BOOST_TEST(tokens["count"] == tokens["tokens"].size());
  BOOST_TEST(tokens["token_strs"].size() == tokens["tokens"].size());
  BOOST_TEST(tokens["max_model_len"] == 256);
  const auto back = post("/detokenize", json{{"tokens", tokens["tokens"]}}.dump());
  BOOST_TEST(back->json()["prompt"] == "a red circle");
  for (const char* bad :
       {R"({"tokens":[-1]})", R"({"tokens":[999999]})", R"({"tokens":["a"]})", R"({})"}) {
    const auto writer = post("/detokenize", bad);
    BOOST_TEST(writer->status == 400, bad);
    BOOST_TEST(error_of(*writer)["param"] == "tokens", bad);
  }
  BOOST_TEST(error_of(*post("/tokenize", "{}"))["param"] == "prompt");
  BOOST_TEST(post("/tokenize", R"({"model":"other","prompt":"x"})")->status == 404);
  BOOST_TEST(
      post("/tokenize", R"({"messages":[{"role":"user","content":"hi"}]})")->json()["count"] > 1);
}

BOOST_AUTO_TEST_CASE(protocol_errors_have_the_apis_shape) {
  const HttpResponse response =
      api.protocol_error(413, "The body is too large.", request("POST", "/v1/chat/completions"));
  BOOST_TEST(response.status == 413);
  const json error = json::parse(response.body)["error"];
  BOOST_TEST(error["code"] == "request_too_large");
  BOOST_TEST(error["type"] == "invalid_request_error");
  BOOST_TEST(error["message"] == "The body is too large.");
  BOOST_REQUIRE(rows.size() == 1U);
  BOOST_TEST(rows[0].status == 413);
  BOOST_TEST(rows[0].error_code == "request_too_large");
  BOOST_TEST(rows[0].client == "127.0.0.1");

  const std::pair<int, const char*> codes[] = {
      {400, "bad_request"}, {408, "request_timeout"}, {500, "engine_error"}, {503, "overloaded"}};
  for (const auto& [status, code] : codes) {
    const HttpResponse other = api.protocol_error(status, "what", {});
    BOOST_TEST(json::parse(other.body)["error"]["code"] == code);
  }
  BOOST_TEST(rows.size() == 1U);  // what has no path belongs to no logged route
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
