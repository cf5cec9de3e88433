// Proves POST /v1/responses: its object and its typed events in the right order, what is refused
// because nothing is stored, and the counting of input tokens beside it.
#include <boost/test/unit_test.hpp>
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

struct ResponsesFixture : ApiFixture {
  std::shared_ptr<RecordingWriter> respond(const json& fields) {
    json body = {{"model", "tiny"}, {"input", "hi"}};
    if (!fields.is_null()) body.update(fields);
    return post("/v1/responses", body.dump());
  }
  // (event field, data) of each event.
  static std::vector<std::pair<std::string, json>> typed_events(const RecordingWriter& writer) {
    std::vector<std::pair<std::string, json>> out;
    size_t begin = 0;
    for (size_t end; (end = writer.body.find("\n\n", begin)) != std::string::npos;
         begin = end + 2) {
      const std::string event = writer.body.substr(begin, end - begin);
      const size_t line = event.find('\n');
      BOOST_REQUIRE(event.starts_with("event: ") && line != std::string::npos);
      out.emplace_back(event.substr(7, line - 7), json::parse(event.substr(line + 7)));
    }
    return out;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(responses_tests, ResponsesFixture)

BOOST_AUTO_TEST_CASE(a_whole_response_repeats_its_request) {
  const auto writer = respond({{"instructions", "Be brief."},
                               {"max_output_tokens", 5},
                               {"temperature", 0.5},
                               {"metadata", {{"a", "b"}}},
                               {"store", false}});
  BOOST_TEST(engine.requests[0].max_tokens == 5);
  BOOST_TEST(engine.requests[0].temperature == 0.5F);
  sink().on_text(0, "Hello", {}, 2);
  finish();
  const json body = writer->json();
  BOOST_TEST(body["id"].get<std::string>().starts_with("resp_"));
  BOOST_TEST(body["object"] == "response");
  BOOST_TEST(body["status"] == "completed");
  BOOST_TEST(body["instructions"] == "Be brief.");
  BOOST_TEST(body["max_output_tokens"] == 5);
  BOOST_TEST(body["metadata"] == json::parse(R"({"a":"b"})"));
  BOOST_TEST(body["store"] == false);
  BOOST_TEST(body["incomplete_details"].is_null());
  const json item = body["output"][0];
  BOOST_TEST(item["type"] == "message");
  BOOST_TEST(item["content"][0]["type"] == "output_text");
  BOOST_TEST(item["content"][0]["text"] == "Hello");
  BOOST_TEST(body["usage"]["input_tokens"] == 7);
  BOOST_TEST(body["usage"]["input_tokens_details"]["image_tokens"] == 4);
  BOOST_TEST(body["usage"]["input_tokens_details"]["cached_tokens"] == 3);
  BOOST_TEST(body["usage"]["output_tokens"] == 2);
  BOOST_TEST(rows[0].params_json.find(R"("metadata":{"a":"b"})") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_limit_makes_a_response_incomplete) {
  const auto writer = respond({});
  sink().on_text(0, "Hel", {}, 1);
  finish(FinishReason::kLength);
  BOOST_TEST(writer->json()["status"] == "incomplete");
  BOOST_TEST(writer->json()["incomplete_details"]["reason"] == "max_output_tokens");
}

BOOST_AUTO_TEST_CASE(events_come_in_openais_order_and_are_numbered) {
  const auto writer = respond({{"stream", true}});
  BOOST_TEST(!writer->streaming);
  sink().on_text(0, "Hel", {}, 1);
  sink().on_text(0, "", {}, 2);
  sink().on_text(0, "lo", {}, 3);
  finish();
  BOOST_TEST(writer->done);
  BOOST_TEST(writer->body.find("[DONE]") == std::string::npos);
  const auto events = typed_events(*writer);
  const std::vector<std::string> wanted = {
      "response.created",           "response.in_progress",
      "response.output_item.added", "response.content_part.added",
      "response.output_text.delta", "response.output_text.delta",
      "response.output_text.done",  "response.content_part.done",
      "response.output_item.done",  "response.completed"};
  BOOST_REQUIRE(events.size() == wanted.size());
  for (size_t i = 0; i < events.size(); ++i) {
    BOOST_TEST(events[i].first == wanted[i]);
    BOOST_TEST(events[i].second["type"] == wanted[i]);
    BOOST_TEST(events[i].second["sequence_number"] == i);
  }
  BOOST_TEST(events[0].second["response"]["status"] == "in_progress");
  BOOST_TEST(events[4].second["delta"] == "Hel");
  BOOST_TEST(events[4].second["item_id"] == events[2].second["item"]["id"]);
  BOOST_TEST(events[6].second["text"] == "Hello");
  BOOST_TEST(events[9].second["response"]["output"][0]["content"][0]["text"] == "Hello");
  BOOST_TEST(events[9].second["response"]["usage"]["total_tokens"] == 9);
}

BOOST_AUTO_TEST_CASE(a_stream_that_fails_ends_with_failed) {
  const auto writer = respond({{"stream", true}});
  sink().on_text(0, "Hel", {}, 1);
  const Error fault{ErrorKind::kInternal, "cuda address", "", ""};
  sink().on_done({}, {}, &fault);
  const auto events = typed_events(*writer);
  BOOST_TEST(events.back().first == "response.failed");
  BOOST_TEST(events.back().second["response"]["error"]["code"] == "server_error");
  BOOST_TEST(writer->body.find("cuda") == std::string::npos);
  BOOST_TEST(writer->done);
}

BOOST_AUTO_TEST_CASE(logprobs_come_when_they_are_included) {
  const auto writer = respond({{"include", {"message.output_text.logprobs"}}, {"top_logprobs", 2}});
  BOOST_TEST(engine.requests[0].n_logprobs == 2);
  sink().on_text(0, "a", {{5, -0.5F, {{5, -0.5F}, {6, -1}}}}, 1);
  finish();
  const json entry = writer->json()["output"][0]["content"][0]["logprobs"][0];
  BOOST_TEST(entry["logprob"] == -0.5);
  BOOST_TEST(entry["top_logprobs"].size() == 2U);
}

BOOST_AUTO_TEST_CASE(input_may_be_a_conversation_with_pictures) {
  const json input = json::array(
      {{{"role", "developer"}, {"content", "Be brief."}},
       {{"type", "message"},
        {"role", "user"},
        {"content",
         {{{"type", "input_text"}, {"text", "one"}},
          {{"type", "input_image"}, {"image_url", kPixel}, {"detail", "low"}}}}},
       {{"role", "assistant"}, {"content", {{{"type", "output_text"}, {"text", "two"}}}}},
       {{"role", "user"}, {"content", "three"}}});
  respond({{"input", input}});
  BOOST_REQUIRE(engine.requests.size() == 1U);
  BOOST_TEST(engine.requests[0].prompt.images.size() == 1U);
  const json counted =
      post("/v1/responses/input_tokens", json{{"model", "tiny"}, {"input", input}}.dump())->json();
  BOOST_TEST(counted["object"] == "response.input_tokens");
  BOOST_TEST(counted["input_tokens"] == engine.requests[0].prompt.token_ids.size());
  BOOST_TEST(counted["input_tokens_details"]["image_tokens"] == 4);
}

BOOST_AUTO_TEST_CASE(what_leans_on_stored_state_is_refused_by_name) {
  const std::pair<json, const char*> cases[] = {
      {{{"previous_response_id", "resp_1"}}, "previous_response_id"},
      {{{"conversation", "conv_1"}}, "conversation"},
      {{{"prompt", {{"id", "p"}}}}, "prompt"},
      {{{"store", true}}, "store"},
      {{{"background", true}}, "background"},
      {{{"input", nullptr}}, "input"},
      {{{"input", json::array()}}, "input"},
      {{{"input", 5}}, "input"},
      {{{"input", json::array({nullptr})}}, "input[0]"},
      {{{"input", {{{"type", "item_reference"}, {"id", "x"}}}}}, "input[0].type"},
      {{{"input", {{{"role", "robot"}, {"content", "x"}}}}}, "input[0].role"},
      {{{"input", {{{"role", "user"}}}}}, "input[0].content"},
      {{{"input", {{{"role", "user"}, {"content", {{{"type", "input_file"}}}}}}}},
       "input[0].content[0].type"},
      {{{"input",
         {{{"role", "user"}, {"content", {{{"type", "input_image"}, {"file_id", "f"}}}}}}}},
       "input[0].content[0].file_id"},
      {{{"input",
         {{{"role", "user"}, {"content", {{{"type", "input_image"}, {"image_url", "x"}}}}}}}},
       "input[0].content[0].image_url"},
      {{{"text", {{"format", {{"type", "json_schema"}}}}}}, "text"},
      {{{"tools", {{{"type", "web_search"}}}}}, "tools[0].type"},
      {{{"tool_choice", "required"}}, "tool_choice"},
      {{{"max_output_tokens", 0}}, "max_output_tokens"},
      {{{"n", 2}}, "n"},
      {{{"instructions", 5}}, "instructions"},
  };
  for (const auto& [fields, param] : cases) {
    BOOST_TEST_CONTEXT(fields.dump()) {
      const auto writer = respond(fields);
      BOOST_TEST(writer->status == 400);
      BOOST_TEST(error_of(*writer)["param"] == param);
    }
  }
  BOOST_TEST(engine.requests.empty());
  const auto accepted = respond({{"text", {{"format", {{"type", "text"}}}, {"verbosity", "low"}}},
                                 {"truncation", "auto"},
                                 {"reasoning", {{"effort", "low"}}},
                                 {"tools", json::array()},
                                 {"tool_choice", "auto"},
                                 {"stream_options", nullptr}});
  BOOST_TEST(!accepted->done);
}

BOOST_AUTO_TEST_CASE(a_chat_is_counted_with_its_pictures) {
  const json messages =
      json::array({{{"role", "user"},
                    {"content",
                     {{{"type", "text"}, {"text", "one"}},
                      {{"type", "image_url"}, {"image_url", {{"url", kPixel}}}}}}}});
  const json body = {{"model", "tiny"}, {"messages", messages}};
  const auto counted = post("/v1/chat/completions/input_tokens", body.dump());
  BOOST_TEST(counted->status == 200);
  const json answer = counted->json();
  BOOST_TEST(answer["input_tokens_details"]["image_tokens"] == 4);
  post("/v1/chat/completions", body.dump());
  BOOST_TEST(answer["input_tokens"] == engine.requests.back().prompt.token_ids.size());
  BOOST_TEST(
      post("/v1/chat/completions/input_tokens", R"({"model":"other","messages":[]})")->status ==
      404);
  BOOST_TEST(error_of(*post("/v1/chat/completions/input_tokens", R"({"model":"tiny"})"))["param"] ==
             "messages");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
