// Proves function tools of chats and responses: which fields are taken and which are refused where,
// what the engine is given, and how calls arrive, whole and streamed.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "api/fixture.h"

namespace hs::test {

using nlohmann::json;

namespace {

const json kWeather = {{"type", "function"},
                       {"function",
                        {{"name", "weather"},
                         {"description", "Tells the weather."},
                         {"parameters",
                          {{"type", "object"},
                           {"properties", {{"city", {{"type", "string"}}}}},
                           {"required", {"city"}}}}}}};
const json kPing = {{"type", "function"}, {"function", {{"name", "ping"}}}};
const json kTools = json::array({kWeather, kPing});
const std::string kCall =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
const std::string kPingCall = "<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>";

struct ToolsFixture : ApiFixture {
  std::shared_ptr<RecordingWriter> respond(const json& fields) {
    json body = {{"model", "tiny"}, {"input", "hi"}};
    body.update(fields);
    return post("/v1/responses", body.dump());
  }
  // Whether the text keeps to the grammar of the last request.
  bool allows(std::string_view text) {
    Grammar& grammar = *engine.requests.back().grammar;
    Expr state = grammar.start();
    for (const int32_t id :
         prompts.tokenizer().encode(text, {.add_special_tokens = false, .literal = {}})) {
      state = grammar.after(state, id);
      if (state == kNoText) return false;
    }
    return grammar.may_end(state);
  }
  void say(std::string_view text, FinishReason reason = FinishReason::kStop) {
    int32_t n = 0;
    for (const char c : text) sink().on_text(0, std::string_view(&c, 1), {}, ++n);
    finish(reason, n);
  }
  static json delta(const std::string& event) { return json::parse(event)["choices"][0]["delta"]; }
  // A stream's deltas put together, as clients do.
  static json joined(const RecordingWriter& writer) {
    json message = {{"content", nullptr}, {"tool_calls", json::array()}, {"finish", nullptr}};
    for (const std::string& event : writer.events()) {
      if (event == "[DONE]") break;
      const json choice = json::parse(event)["choices"][0];
      const json& part = choice["delta"];
      if (part.contains("content") && part["content"].is_string())
        message["content"] =
            (message["content"].is_null() ? "" : message["content"].get<std::string>()) +
            part["content"].get<std::string>();
      for (const json& call : part.value("tool_calls", json::array())) {
        const auto index = call["index"].get<size_t>();
        if (index == message["tool_calls"].size()) {
          BOOST_TEST(call["type"] == "function");
          BOOST_TEST(call["function"]["arguments"] == "");
          message["tool_calls"].push_back(call);
          continue;
        }
        BOOST_REQUIRE(index + 1 == message["tool_calls"].size());
        BOOST_TEST(!call.contains("id"));
        auto& arguments =
            message["tool_calls"][index]["function"]["arguments"].get_ref<std::string&>();
        arguments += call["function"]["arguments"].get<std::string>();
      }
      if (!choice["finish_reason"].is_null()) message["finish"] = choice["finish_reason"];
    }
    return message;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tools_tests, ToolsFixture)

BOOST_AUTO_TEST_CASE(a_whole_answer_has_its_calls_and_no_content) {
  const auto writer = chat({{"tools", kTools}});
  BOOST_REQUIRE(engine.requests.size() == 1U);
  BOOST_TEST(engine.requests[0].grammar != nullptr);
  say(kCall + "\n" + kPingCall);
  const json choice = writer->json()["choices"][0];
  BOOST_TEST(choice["finish_reason"] == "tool_calls");
  BOOST_TEST(choice["message"]["content"].is_null());
  const json calls = choice["message"]["tool_calls"];
  BOOST_REQUIRE(calls.size() == 2U);
  BOOST_TEST(calls[0]["type"] == "function");
  BOOST_TEST(calls[0]["function"]["name"] == "weather");
  BOOST_TEST(calls[0]["function"]["arguments"] == R"({"city": "Oslo"})");
  BOOST_TEST(calls[1]["function"]["name"] == "ping");
  BOOST_TEST(calls[1]["function"]["arguments"] == "{}");
  BOOST_TEST(calls[0]["id"].get<std::string>().starts_with("call_"));
  BOOST_TEST(calls[0]["id"] != calls[1]["id"]);
  BOOST_TEST(rows[0].finish_reason == "tool_calls");
}

BOOST_AUTO_TEST_CASE(a_text_before_calls_is_content_and_a_text_alone_is_an_ordinary_answer) {
  const auto with_call = chat({{"tools", kTools}});
  say("One moment.\n" + kPingCall);
  BOOST_TEST(with_call->json()["choices"][0]["message"]["content"] == "One moment.");
  BOOST_TEST(with_call->json()["choices"][0]["message"]["tool_calls"].size() == 1U);
  const auto alone = chat({{"tools", kTools}});
  say("No need. <");
  const json choice = alone->json()["choices"][0];
  BOOST_TEST(choice["message"]["content"] == "No need. <");
  BOOST_TEST(!choice["message"].contains("tool_calls"));
  BOOST_TEST(choice["finish_reason"] == "stop");
}

BOOST_AUTO_TEST_CASE(a_stream_has_the_same_calls_in_pieces) {
  const auto writer = chat({{"tools", kTools}, {"stream", true}});
  say("Hm.\n" + kCall + kPingCall);
  const auto events = writer->events();
  BOOST_TEST(delta(events[0])["role"] == "assistant");
  BOOST_TEST(delta(events[0])["content"].is_null());
  BOOST_TEST(writer->body.find("tool_call>") == std::string::npos);
  const json message = joined(*writer);
  BOOST_TEST(message["content"] == "Hm.");
  BOOST_TEST(message["finish"] == "tool_calls");
  BOOST_REQUIRE(message["tool_calls"].size() == 2U);
  BOOST_TEST(message["tool_calls"][0]["function"]["name"] == "weather");
  BOOST_TEST(message["tool_calls"][0]["function"]["arguments"] == R"({"city": "Oslo"})");
  BOOST_TEST(message["tool_calls"][1]["function"]["arguments"] == "{}");
  BOOST_TEST(message["tool_calls"][0]["id"] != message["tool_calls"][1]["id"]);
}

BOOST_AUTO_TEST_CASE(a_call_that_the_limit_cut_ends_with_length) {
  for (const bool stream : {false, true}) {
    const auto writer = chat({{"tools", kTools}, {"tool_choice", "required"}, {"stream", stream}});
    say(kCall.substr(0, kCall.find("Oslo") + 2), FinishReason::kLength);
    const json choice = stream ? json() : writer->json()["choices"][0];
    const json calls = stream ? joined(*writer)["tool_calls"] : choice["message"]["tool_calls"];
    BOOST_TEST((stream ? joined(*writer)["finish"] : choice["finish_reason"]) == "length");
    BOOST_REQUIRE(calls.size() == 1U);
    BOOST_TEST(calls[0]["function"]["arguments"] == R"({"city": "Os)");
  }
}

BOOST_AUTO_TEST_CASE(log_probabilities_of_all_tokens_come_whole_and_streamed) {
  for (const bool stream : {false, true}) {
    const auto writer = chat(
        {{"tools", kTools}, {"tool_choice", "required"}, {"stream", stream}, {"logprobs", true}});
    int32_t n = 0;
    for (const std::string& piece : {kPingCall.substr(0, 5), kPingCall.substr(5)}) {
      sink().on_text(0, piece, {{n + 5, -0.5F, {}}}, n + 1);
      ++n;
    }
    finish(FinishReason::kStop, n);
    size_t n_entries = 0;
    if (!stream) {
      n_entries = writer->json()["choices"][0]["logprobs"]["content"].size();
    } else {
      for (const std::string& event : writer->events()) {
        if (event == "[DONE]") break;
        const json logprobs = json::parse(event)["choices"][0]["logprobs"];
        if (!logprobs.is_null()) n_entries += logprobs["content"].size();
      }
      BOOST_TEST(joined(*writer)["content"].is_null());
    }
    BOOST_TEST(n_entries == 2U);
  }
}

BOOST_AUTO_TEST_CASE(each_choice_of_several_has_calls_of_its_own) {
  const auto writer = chat({{"tools", kTools}, {"n", 2}});
  sink().on_text(0, kPingCall, {}, 3);
  sink().on_text(1, "text", {}, 3);
  sink().on_choice_finished(0, FinishReason::kStop, "");
  sink().on_choice_finished(1, FinishReason::kStop, "");
  sink().on_done({}, {}, nullptr);
  const json choices = writer->json()["choices"];
  BOOST_TEST(choices[0]["finish_reason"] == "tool_calls");
  BOOST_TEST(choices[1]["finish_reason"] == "stop");
  BOOST_TEST(choices[1]["message"]["content"] == "text");
}

BOOST_AUTO_TEST_CASE(the_choice_of_tools_decides_what_may_be_said) {
  const json named = {{"type", "function"}, {"function", {{"name", "ping"}}}};
  const json allowed = {{"type", "allowed_tools"},
                        {"allowed_tools", {{"mode", "auto"}, {"tools", json::array({named})}}}};
  const std::string two = kPingCall + "\n" + kPingCall;
  struct Case {
    json fields;
    bool text, ping, weather, many;
  };
  for (const Case& one : std::vector<Case>{
           {{{"tools", kTools}}, true, true, true, true},
           {{{"tools", kTools}, {"tool_choice", "auto"}, {"parallel_tool_calls", false}},
            true,
            true,
            true,
            false},
           {{{"tools", kTools}, {"tool_choice", "none"}}, true, false, false, false},
           {{{"tools", kTools}, {"tool_choice", "required"}}, false, true, true, true},
           {{{"tools", kTools}, {"tool_choice", named}}, false, true, false, false},
           {{{"tools", kTools}, {"tool_choice", allowed}}, true, true, false, true}}) {
    BOOST_TEST_CONTEXT(one.fields.dump()) {
      chat(one.fields);
      BOOST_TEST(allows("Hello") == one.text);
      BOOST_TEST(allows(kPingCall) == one.ping);
      BOOST_TEST(allows(kCall) == one.weather);
      BOOST_TEST(allows(two) == one.many);
      BOOST_TEST(!allows("<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": 1}}</tool_call>"));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_answer_without_tools_or_calls_is_told_as_it_is) {
  const auto writer = chat({{"tools", kTools}, {"tool_choice", "none"}});
  say("a <tool_call");
  BOOST_TEST(writer->json()["choices"][0]["message"]["content"] == "a <tool_call");
  chat({{"tools", json::array()}, {"tool_choice", "auto"}});
  BOOST_TEST(engine.requests.back().grammar == nullptr);
}

BOOST_AUTO_TEST_CASE(a_form_holds_for_texts_beside_calls) {
  const json form = {{"type", "json_schema"},
                     {"json_schema",
                      {{"name", "a"},
                       {"schema",
                        {{"type", "object"},
                         {"properties", {{"a", {{"type", "string"}}}}},
                         {"required", {"a"}}}}}}};
  const auto writer = chat({{"tools", kTools}, {"response_format", form}});
  BOOST_TEST(allows(R"({"a": "<tool_call>"})"));
  BOOST_TEST(allows(kPingCall));
  BOOST_TEST(!allows("text"));
  say(R"({"a": "<tool_call>"})");
  BOOST_TEST(writer->json()["choices"][0]["message"]["content"] == R"({"a": "<tool_call>"})");
}

BOOST_AUTO_TEST_CASE(stop_strings_end_texts_and_no_call_that_must_come) {
  chat({{"tools", kTools}, {"stop", {"Oslo"}}});
  BOOST_TEST(engine.requests.back().stops.size() == 1U);
  chat({{"tools", kTools}, {"stop", {"Oslo"}}, {"tool_choice", "required"}});
  BOOST_TEST(engine.requests.back().stops.empty());
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_refused_at_its_place) {
  const auto function = [](const json& fields) {
    return json::array({{{"type", "function"}, {"function", fields}}});
  };
  const auto properties = [](const json& one) {
    return json{{"type", "object"}, {"properties", {{"a", one}}}};
  };
  const std::vector<std::pair<json, std::string>> cases = {
      {{{"tools", 5}}, "tools"},
      {{{"tools", {5}}}, "tools[0]"},
      {{{"tools", {{{"function", {{"name", "f"}}}}}}}, "tools[0].type"},
      {{{"tools", {{{"type", "custom"}}}}}, "tools[0].type"},
      {{{"tools", {{{"type", "function"}}}}}, "tools[0].function"},
      {{{"tools", function({{"description", "x"}})}}, "tools[0].function.name"},
      {{{"tools", function({{"name", "a b"}})}}, "tools[0].function.name"},
      {{{"tools", function({{"name", std::string(65, 'a')}})}}, "tools[0].function.name"},
      {{{"tools", {kPing, kPing}}}, "tools[1].function.name"},
      {{{"tools", function({{"name", "f"}, {"description", 5}})}}, "tools[0].function.description"},
      {{{"tools", function({{"name", "f"}, {"strict", "yes"}})}}, "tools[0].function.strict"},
      {{{"tools", function({{"name", "f"}, {"parameters", {1}}})}}, "tools[0].function.parameters"},
      {{{"tools", function({{"name", "f"}, {"parameters", {{"type", "string"}}}})}},
       "tools[0].function.parameters.type"},
      {{{"tools", function({{"name", "f"}, {"parameters", properties({{"type", "x"}})}})}},
       "tools[0].function.parameters.properties.a.type"},
      {{{"tools", function({{"name", "f"},
                            {"strict", true},
                            {"parameters", properties({{"not", json::object()}})}})}},
       "tools[0].function.parameters.properties.a.not"},
      {{{"tools", kTools}, {"tool_choice", "sometimes"}}, "tool_choice"},
      {{{"tools", kTools}, {"tool_choice", 5}}, "tool_choice"},
      {{{"tools", kTools}, {"tool_choice", {{"type", "custom"}}}}, "tool_choice.type"},
      {{{"tools", kTools}, {"tool_choice", {{"type", "function"}}}}, "tool_choice.function.name"},
      {{{"tools", kTools}, {"tool_choice", {{"type", "function"}, {"function", {{"name", "x"}}}}}},
       "tool_choice"},
      {{{"tools", kTools},
        {"tool_choice", {{"type", "allowed_tools"}, {"allowed_tools", {{"mode", "never"}}}}}},
       "tool_choice.allowed_tools.mode"},
      {{{"tools", kTools},
        {"tool_choice",
         {{"type", "allowed_tools"}, {"allowed_tools", {{"mode", "auto"}, {"tools", {5}}}}}}},
       "tool_choice.allowed_tools.tools[0]"},
      {{{"tool_choice", "required"}}, "tool_choice"},
      {{{"tools", kTools}, {"parallel_tool_calls", 1}}, "parallel_tool_calls"},
      {{{"functions", {{{"name", "f"}}}}}, "functions"},
  };
  for (const auto& [fields, param] : cases) {
    BOOST_TEST_CONTEXT(fields.dump()) {
      const auto writer = chat(fields);
      BOOST_TEST(writer->status == 400);
      if (writer->status == 400) BOOST_TEST(error_of(*writer)["param"] == param);
    }
  }
  const auto many = chat({{"tools", json(129, kPing)}});
  BOOST_TEST(error_of(*many)["param"] == "tools");
  BOOST_TEST(engine.requests.empty());
}

BOOST_AUTO_TEST_CASE(a_response_has_items_of_calls) {
  const json tool = {
      {"type", "function"}, {"name", "ping"}, {"parameters", nullptr}, {"strict", true}};
  const auto writer = respond({{"tools", {tool}}, {"tool_choice", "required"}});
  say(kPingCall);
  const json body = writer->json();
  BOOST_TEST(body["status"] == "completed");
  BOOST_REQUIRE(body["output"].size() == 1U);
  const json item = body["output"][0];
  BOOST_TEST(item["type"] == "function_call");
  BOOST_TEST(item["status"] == "completed");
  BOOST_TEST(item["name"] == "ping");
  BOOST_TEST(item["arguments"] == "{}");
  BOOST_TEST(item["call_id"].get<std::string>().starts_with("call_"));
  BOOST_TEST(item["id"].get<std::string>().starts_with("fc_"));
  BOOST_TEST(body["tools"][0]["name"] == "ping");
  BOOST_TEST(body["tools"][0]["strict"] == true);
  BOOST_TEST(body["tool_choice"] == "required");
  BOOST_TEST(body["parallel_tool_calls"] == true);
}

BOOST_AUTO_TEST_CASE(a_response_streams_typed_events_of_texts_and_calls) {
  const auto writer =
      respond({{"tools", {{{"type", "function"}, {"name", "ping"}}}}, {"stream", true}});
  sink().on_text(0, "Hm.\n", {}, 1);
  sink().on_text(0, kPingCall.substr(0, 40), {}, 2);
  sink().on_text(0, kPingCall.substr(40) + kPingCall, {}, 3);
  finish();
  std::vector<std::string> types;
  std::vector<json> data;
  size_t begin = 0;
  for (size_t end; (end = writer->body.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    const std::string event = writer->body.substr(begin, end - begin);
    data.push_back(json::parse(event.substr(event.find("\ndata: ") + 7)));
    types.push_back(data.back()["type"]);
    BOOST_TEST(data.back()["sequence_number"] == data.size() - 1);
  }
  const std::vector<std::string> wanted = {"response.created",
                                           "response.in_progress",
                                           "response.output_item.added",
                                           "response.content_part.added",
                                           "response.output_text.delta",
                                           "response.output_text.done",
                                           "response.content_part.done",
                                           "response.output_item.done",
                                           "response.output_item.added",
                                           "response.function_call_arguments.delta",
                                           "response.function_call_arguments.done",
                                           "response.output_item.done",
                                           "response.output_item.added",
                                           "response.function_call_arguments.delta",
                                           "response.function_call_arguments.done",
                                           "response.output_item.done",
                                           "response.completed"};
  BOOST_TEST(types == wanted, boost::test_tools::per_element());
  BOOST_REQUIRE(types == wanted);
  BOOST_TEST(data[4]["delta"] == "Hm.");
  BOOST_TEST(data[8]["output_index"] == 1);
  BOOST_TEST(data[8]["item"]["arguments"] == "");
  BOOST_TEST(data[9]["item_id"] == data[8]["item"]["id"]);
  BOOST_TEST(data[10]["name"] == "ping");
  BOOST_TEST(data[10]["arguments"] == "{}");
  BOOST_TEST(data[12]["output_index"] == 2);
  BOOST_TEST(data[16]["response"]["output"].size() == 3U);
  BOOST_TEST(data[16]["response"]["output"][2]["call_id"] !=
             data[16]["response"]["output"][1]["call_id"]);
}

BOOST_AUTO_TEST_CASE(a_response_without_a_word_has_an_empty_message) {
  const auto writer = respond({{"tools", {{{"type", "function"}, {"name", "ping"}}}}});
  finish();
  BOOST_TEST(writer->json()["output"][0]["type"] == "message");
  const auto cut = respond({{"tools", {{{"type", "function"}, {"name", "ping"}}}}});
  say(kPingCall.substr(0, kPingCall.find('}')), FinishReason::kLength);
  BOOST_TEST(cut->json()["status"] == "incomplete");
  BOOST_TEST(cut->json()["output"][0]["status"] == "incomplete");
}

BOOST_AUTO_TEST_CASE(responses_refuse_at_their_own_places) {
  const std::vector<std::pair<json, std::string>> cases = {
      {{{"tools", {{{"type", "web_search"}}}}}, "tools[0].type"},
      {{{"tools", {{{"type", "function"}}}}}, "tools[0].name"},
      {{{"tools", {{{"type", "function"}, {"name", "f"}, {"parameters", 5}}}}},
       "tools[0].parameters"},
      {{{"tools", {{{"type", "function"}, {"name", "f"}}}},
        {"tool_choice", {{"type", "function"}}}},
       "tool_choice.name"},
      {{{"tools", {{{"type", "function"}, {"name", "f"}}}},
        {"tool_choice", {{"type", "allowed_tools"}, {"mode", "auto"}}}},
       "tool_choice.tools"},
      {{{"input", {{{"type", "function_call"}, {"name", "f"}, {"arguments", "{}"}}}}},
       "input[0].call_id"},
      {{{"input", {{{"type", "function_call_output"}, {"call_id", "c"}}}}}, "input[0].output"},
      {{{"input", {{{"type", "item_reference"}, {"id", "x"}}}}}, "input[0].type"},
  };
  for (const auto& [fields, param] : cases) {
    BOOST_TEST_CONTEXT(fields.dump()) {
      const auto writer = respond(fields);
      BOOST_TEST(writer->status == 400);
      if (writer->status == 400) BOOST_TEST(error_of(*writer)["param"] == param);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
