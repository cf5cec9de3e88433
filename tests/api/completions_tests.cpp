// Proves POST /v1/completions from request to last byte, with the engine's part played by the test:
// every form of prompt, echo, log-probabilities with their offsets, several prompts in one request.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/fixture.h"

namespace hs::test {

using nlohmann::json;

namespace {

struct CompletionsFixture : ApiFixture {
  std::shared_ptr<RecordingWriter> complete(const json& fields) {
    json body = {{"model", "tiny"}, {"prompt", "a red circle"}};
    if (!fields.is_null()) body.update(fields);
    return post("/v1/completions", body.dump());
  }
  // Waits until the engine has n requests.
  std::shared_ptr<RecordingWriter> complete(const json& fields, size_t n) {
    json body = {{"model", "tiny"}, {"prompt", "x"}};
    body.update(fields);
    auto writer = send(request("POST", "/v1/completions", body.dump()));
    run_until(loop, [&] { return writer->done || engine.sinks.size() >= n; }, "the requests");
    return writer;
  }
  void end(size_t sink, int32_t n_tokens = 1) {
    engine.sinks[sink]->on_done({.prompt_tokens = 3, .completion_tokens = n_tokens}, {}, nullptr);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(completions_tests, CompletionsFixture)

BOOST_AUTO_TEST_CASE(a_whole_answer_has_openais_shape) {
  const auto writer = complete({});
  BOOST_REQUIRE(engine.requests.size() == 1U);
  BOOST_TEST(engine.requests[0].max_tokens == 16);
  BOOST_TEST(engine.requests[0].continues_text);
  BOOST_TEST(engine.requests[0].n_prompt_logprobs == -1);
  sink().on_text(0, " on", {}, 1);
  sink().on_text(0, " white", {}, 2);
  finish(FinishReason::kLength);
  const json body = writer->json();
  BOOST_TEST(body["id"].get<std::string>().starts_with("cmpl-"));
  BOOST_TEST(body["object"] == "text_completion");
  BOOST_TEST(body["model"] == "tiny");
  BOOST_TEST(body["choices"] == json::parse(R"([{"index":0,"text":" on white","logprobs":null,
      "finish_reason":"length"}])"));
  BOOST_TEST(body["usage"]["total_tokens"] == 9);
  BOOST_REQUIRE(rows.size() == 1U);
  BOOST_TEST(rows[0].endpoint == "/v1/completions");
  BOOST_TEST(rows[0].finish_reason == "length");
}

BOOST_AUTO_TEST_CASE(prompts_come_as_text_and_as_tokens_alone_and_many) {
  complete({{"prompt", {5, 6, 7}}});
  BOOST_TEST(engine.requests.back().prompt.token_ids == (std::vector<int32_t>{5, 6, 7}),
             boost::test_tools::per_element());
  finish();
  complete({{"prompt", json::array({json::array({5}), json::array({6, 7})})}}, 3);
  BOOST_REQUIRE(engine.requests.size() == 3U);
  BOOST_TEST(engine.requests[1].prompt.token_ids.size() == 1U);
  BOOST_TEST(engine.requests[2].prompt.token_ids.size() == 2U);
  complete({{"prompt", {"a", "b"}}, {"n", 2}}, 5);
  BOOST_REQUIRE(engine.requests.size() == 5U);
  BOOST_TEST(engine.requests[3].n_choices == 2);
  BOOST_TEST(engine.requests[3].seed != engine.requests[4].seed);
}

BOOST_AUTO_TEST_CASE(choices_are_counted_over_all_prompts) {
  const auto writer = complete({{"prompt", {"a", "b"}}, {"n", 2}}, 2);
  for (const size_t s : {1U, 0U}) {
    for (const int32_t choice : {1, 0}) {
      engine.sinks[s]->on_text(choice, std::to_string(s * 2) + "+" + std::to_string(choice), {}, 1);
      engine.sinks[s]->on_choice_finished(choice, FinishReason::kStop, "");
    }
    BOOST_TEST(!writer->done);
    end(s, 2);
  }
  const json body = writer->json();
  BOOST_REQUIRE(body["choices"].size() == 4U);
  for (size_t i = 0; i < 4; ++i) {
    BOOST_TEST(body["choices"][i]["index"] == i);
    BOOST_TEST(body["choices"][i]["text"] ==
               std::to_string(i / 2 * 2) + "+" + std::to_string(i % 2));
  }
  BOOST_TEST(body["usage"]["prompt_tokens"] == 6);
  BOOST_TEST(body["usage"]["completion_tokens"] == 4);
  BOOST_TEST(rows.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_prompt_that_fails_ends_the_others) {
  const auto writer = complete({{"prompt", {"a", "b", "c"}}}, 3);
  const Error fault{ErrorKind::kInternal, "detail", "", ""};
  engine.sinks[1]->on_done({}, {}, &fault);
  BOOST_TEST(!writer->done);
  BOOST_TEST(engine.cancelled.size() == 3U);
  const Error cancelled{ErrorKind::kCancelled, "cancelled", "cancelled", ""};
  engine.sinks[0]->on_done({}, {}, &cancelled);
  engine.sinks[2]->on_done({}, {}, &cancelled);
  BOOST_TEST(writer->status == 500);
  BOOST_TEST(api.n_active() == 0U);
}

BOOST_AUTO_TEST_CASE(a_stream_has_text_chunks_usage_and_done) {
  const auto writer = complete({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  sink().on_text(0, " on", {}, 1);
  sink().on_text(0, "", {}, 2);
  finish();
  const auto events = writer->events();
  BOOST_REQUIRE(events.size() == 4U);
  const json first = json::parse(events[0]);
  BOOST_TEST(first["object"] == "text_completion");
  BOOST_TEST(first["choices"][0]["text"] == " on");
  BOOST_TEST(first["choices"][0]["finish_reason"].is_null());
  BOOST_TEST(first["usage"].is_null());
  BOOST_TEST(json::parse(events[1])["choices"][0]["finish_reason"] == "stop");
  BOOST_TEST(json::parse(events[2])["choices"].empty());
  BOOST_TEST(json::parse(events[2])["usage"]["completion_tokens"] == 2);
  BOOST_TEST(events[3] == "[DONE]");
}

BOOST_AUTO_TEST_CASE(echo_comes_first_with_logprobs_from_the_second_token_on) {
  for (const bool stream : {false, true}) {
    const auto writer = complete(
        {{"echo", true}, {"logprobs", 1}, {"stream", stream}, {"add_special_tokens", false}});
    const GenerateRequest& asked = engine.requests.back();
    BOOST_TEST(asked.n_prompt_logprobs == 1);
    BOOST_TEST(!asked.only_prompt);
    std::vector<TokenLogprob> of_prompt;
    for (size_t i = 1; i < asked.prompt.token_ids.size(); ++i)
      of_prompt.push_back({asked.prompt.token_ids[i], -0.5F, {{7, -0.25F}}});
    sink().on_prompt_logprobs(of_prompt);
    const int32_t id = asked.prompt.token_ids.back();
    sink().on_text(0, prompts.tokenizer().token_bytes(id), {{id, -1.5F, {{id, -1.5F}}}}, 1);
    finish();
    const json choice = (stream ? json::parse(writer->events()[0]) : writer->json())["choices"][0];
    const std::string text = choice["text"];
    BOOST_TEST(text == "a red circle" + prompts.tokenizer().token_bytes(id));
    const json lists = choice["logprobs"];
    const size_t n = asked.prompt.token_ids.size() + 1;
    for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
      BOOST_TEST(lists[list].size() == n, list);
    BOOST_TEST(lists["token_logprobs"][0].is_null());
    BOOST_TEST(lists["top_logprobs"][0].is_null());
    BOOST_TEST(lists["token_logprobs"][1] == -0.5);
    BOOST_TEST(lists["top_logprobs"][1].size() == 2U);  // the alternative, and the token itself
    BOOST_TEST(lists["token_logprobs"][n - 1] == -1.5);
    BOOST_TEST(lists["text_offset"][0] == 0);
    BOOST_TEST(lists["text_offset"][n - 1] == std::string("a red circle").size());
  }
}

BOOST_AUTO_TEST_CASE(no_tokens_at_all_are_legal) {
  complete({{"max_tokens", 0}});
  BOOST_TEST(engine.requests.back().max_tokens == 0);
  BOOST_TEST(!engine.requests.back().only_prompt);
  finish(FinishReason::kLength, 0);
  complete({{"max_tokens", 0}, {"echo", true}});
  BOOST_TEST(!engine.requests.back().only_prompt);
  finish(FinishReason::kLength, 0);
  const auto writer = complete({{"max_tokens", 0}, {"echo", true}, {"logprobs", 1}});
  BOOST_TEST(engine.requests.back().only_prompt);
  sink().on_prompt_logprobs({});
  finish(FinishReason::kLength, 0);
  BOOST_TEST(writer->json()["choices"][0]["text"] == "a red circle");
  BOOST_TEST(writer->json()["choices"][0]["finish_reason"] == "length");
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_character_are_named_by_their_bytes) {
  const auto writer = complete({{"logprobs", 2}});
  const int32_t id = *prompts.tokenizer().id_of("<0xF0>");
  sink().on_text(0, "", {{id, -1, {{id, -1}, {id, -1}}}}, 1);
  finish();
  const json lists = writer->json()["choices"][0]["logprobs"];
  BOOST_TEST(lists["tokens"][0] == "bytes:\\xf0");
  BOOST_TEST(lists["top_logprobs"][0] == (json{{"bytes:\\xf0", -1}}));
}

BOOST_AUTO_TEST_CASE(wrong_values_name_their_field) {
  const std::pair<json, const char*> cases[] = {
      {{{"prompt", nullptr}}, "prompt"},
      {{{"prompt", json::array()}}, "prompt"},
      {{{"prompt", json::array({json::array()})}}, "prompt"},
      {{{"prompt", json::array({json::array({-1})})}}, "prompt"},
      {{{"prompt", json::array({json::array({999999})})}}, "prompt"},
      {{{"prompt", json::array({1.5})}}, "prompt"},
      {{{"prompt", json::array({"a", 5})}}, "prompt"},
      {{{"prompt", 5}}, "prompt"},
      {{{"prompt", std::vector<std::string>(65, "a")}}, "prompt"},
      {{{"prompt", std::vector<std::string>(40, "a")}, {"n", 2}}, "n"},
      {{{"max_tokens", -1}}, "max_tokens"},
      {{{"max_tokens", "5"}}, "max_tokens"},
      {{{"logprobs", 6}}, "logprobs"},
      {{{"logprobs", true}}, "logprobs"},
      {{{"suffix", "x"}}, "suffix"},
      {{{"best_of", 3}}, "best_of"},
      {{{"echo", 1}}, "echo"},
      {{{"response_format", {{"type", "json_schema"}}}}, "response_format"},
      {{{"stream_options", {{"include_usage", true}}}}, "stream_options"},
      {{{"model", "other"}}, "model"},
  };
  for (const auto& [fields, param] : cases) {
    BOOST_TEST_CONTEXT(fields.dump()) {
      const auto writer = complete(fields);
      BOOST_TEST(writer->status == (std::string_view(param) == "model" ? 404 : 400));
      BOOST_TEST(error_of(*writer)["param"] == param);
    }
  }
  BOOST_TEST(engine.requests.empty());
  for (const json& fields :
       {json{{"suffix", ""}}, json{{"best_of", 2}, {"n", 2}}, json{{"logprobs", false}},
        json{{"response_format", {{"type", "text"}}}}}) {
    const auto writer = complete(fields);
    BOOST_TEST(!writer->done, fields.dump());
    finish();
  }
}

BOOST_AUTO_TEST_CASE(a_prompt_that_is_too_long_is_named) {
  engine.refusal = Error{ErrorKind::kTooLarge, "300 of 256", "context_length_exceeded", ""};
  const auto writer = complete({});
  BOOST_TEST(writer->status == 400);
  BOOST_TEST(error_of(*writer)["param"] == "prompt");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
