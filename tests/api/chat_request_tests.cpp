// Proves that each field of a chat request is read, and that each wrong value is a clear error that
// names the field: one table of bodies against the field at fault.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "api/chat_request.h"

namespace hs {
namespace {

Result<ChatRequest> parse_body(std::string_view body, const RequestLimits& limits = {}) {
  ChatRequest request;
  if (Status parsed = parse_chat_request(body, limits, request); !parsed)
    return std::unexpected(parsed.error());
  return request;
}

// A request with `fields` after the two that must be there.
Result<ChatRequest> parse(const std::string& fields) {
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"hi"}])" +
                           (fields.empty() ? "" : "," + fields) + "}";
  return parse_body(body);
}

Result<ChatRequest> parse_messages(const std::string& messages) {
  return parse_body(R"({"model":"m","messages":)" + messages + "}", {.images_max = 2});
}

struct Bad {
  std::string text;
  std::string param;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(chat_request_tests)

BOOST_AUTO_TEST_CASE(every_field_arrives) {
  const auto request = parse(
      R"("temperature":0.5,"top_p":0.25,"min_p":0.125,"top_k":7,"seed":-3,"n":2,"stop":["a","b"],"max_tokens":9,)"
      R"("repetition_penalty":1.25,"frequency_penalty":-0.5,"presence_penalty":1.5,)"
      R"("logprobs":true,"top_logprobs":4,"ignore_eos":true,"skip_special_tokens":false,"stop_token_ids":[5],)"
      R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"timings":true)");
  BOOST_REQUIRE(request);
  const SamplingFields& sampling = request->sampling;
  BOOST_TEST(*sampling.temperature == 0.5F);
  BOOST_TEST(*sampling.top_p == 0.25F);
  BOOST_TEST(*sampling.min_p == 0.125F);
  BOOST_TEST(*sampling.top_k == 7);
  BOOST_TEST(*sampling.seed == static_cast<uint64_t>(-3));
  BOOST_TEST(sampling.n == 2);
  BOOST_TEST(sampling.stops == (std::vector<std::string>{"a", "b"}),
             boost::test_tools::per_element());
  BOOST_TEST(*sampling.max_tokens == 9);
  BOOST_TEST(sampling.n_logprobs == 4);
  BOOST_TEST(sampling.ignore_eos);
  BOOST_TEST(!sampling.skip_special_tokens);
  BOOST_TEST(sampling.stop_token_ids == std::vector<int32_t>{5}, boost::test_tools::per_element());
  BOOST_TEST(*sampling.repetition_penalty == 1.25F);
  BOOST_TEST(sampling.frequency_penalty == -0.5F);
  BOOST_TEST(sampling.presence_penalty == 1.5F);
  BOOST_TEST(request->stream.stream);
  BOOST_TEST(request->stream.include_usage);
  BOOST_TEST(request->stream.continuous_usage);
  BOOST_TEST(request->labels.timings);
}

BOOST_AUTO_TEST_CASE(absent_and_null_fields_leave_the_defaults) {
  for (const char* fields :
       {"", R"("temperature":null,"max_tokens":null,"stop":null,"seed":null,"tools":null)"}) {
    const auto request = parse(fields);
    BOOST_REQUIRE(request);
    BOOST_TEST(!request->sampling.temperature.has_value());
    BOOST_TEST(!request->sampling.max_tokens.has_value());
    BOOST_TEST(request->sampling.n == 1);
    BOOST_TEST(request->sampling.n_logprobs == -1);
    BOOST_TEST(request->sampling.stops.empty());
    BOOST_TEST(!request->stream.stream);
    BOOST_TEST(request->labels.unknown_fields.empty());
  }
}

BOOST_AUTO_TEST_CASE(picture_sizes_come_from_either_spelling) {
  struct Case {
    const char* fields;
    std::optional<int64_t> min;
    std::optional<int64_t> max;
  };
  const Case cases[] = {
      {"", {}, {}},
      {R"("mm_processor_kwargs":null)", {}, {}},
      {R"("mm_processor_kwargs":{})", {}, {}},
      {R"("mm_processor_kwargs":{"min_pixels":784,"max_pixels":50176})", 784, 50176},
      {R"("mm_processor_kwargs":{"max_pixels":50176.0})", {}, 50176},
      {R"("mm_processor_kwargs":{"size":{"shortest_edge":784,"longest_edge":9000000000}})", 784,
       9000000000},
      {R"("mm_processor_kwargs":{"size":{"shortest_edge":1,"longest_edge":2},"max_pixels":3})", 1,
       3},
      {R"("mm_processor_kwargs":{"size":null,"min_pixels":null})", {}, {}},
  };
  for (const Case& c : cases) {
    BOOST_TEST_CONTEXT(c.fields) {
      const auto request = parse(c.fields);
      BOOST_REQUIRE(request);
      BOOST_TEST((request->image_options.min_pixels == c.min));
      BOOST_TEST((request->image_options.max_pixels == c.max));
      BOOST_TEST(request->labels.unknown_fields.empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(wrong_values_name_their_field) {
  const std::vector<Bad> cases = {
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":"1")", "temperature"},
      {R"("top_p":1.5)", "top_p"},
      {R"("min_p":-1)", "min_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":1.5)", "top_k"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":18446744073709551615)", "seed"},
      {R"("n":0)", "n"},
      {R"("n":17)", "n"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-1)", "max_tokens"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("max_tokens":"5")", "max_tokens"},
      {R"("max_completion_tokens":0)", "max_completion_tokens"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a",""])", "stop"},
      {R"("stop":[1])", "stop"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])",
       "stop"},
      {R"("stop_token_ids":[-5])", "stop_token_ids"},
      {R"("stop_token_ids":[2147483648])", "stop_token_ids"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("logprobs":1)", "logprobs"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":[])", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("response_format":{"type":"json_schema"})", "response_format"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"","schema":{}}})",
       "response_format"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})", "response_format"},
      {R"("structured_outputs":{})", "structured_outputs"},
      {R"("structured_outputs":{"choice":[""]})", "structured_outputs"},
      {R"("structured_outputs":{"regex":3})", "structured_outputs"},
      {R"("structured_outputs":{"grammar":"x"})", "structured_outputs"},
      {R"("response_format":{"type":"xml"})", "response_format"},
      {R"("response_format":"text")", "response_format"},
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("functions":[])", "functions"},
      {R"("function_call":"auto")", "function_call"},
      {R"("frequency_penalty":2.5)", "frequency_penalty"},
      {R"("presence_penalty":-2.01)", "presence_penalty"},
      {R"("presence_penalty":"1")", "presence_penalty"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("repetition_penalty":-1)", "repetition_penalty"},
      {R"("repetition_penalty":1e9)", "repetition_penalty"},
      {R"("mm_processor_kwargs":[])", "mm_processor_kwargs"},
      {R"("mm_processor_kwargs":{"min_pixels":0})", "mm_processor_kwargs.min_pixels"},
      {R"("mm_processor_kwargs":{"max_pixels":-5})", "mm_processor_kwargs.max_pixels"},
      {R"("mm_processor_kwargs":{"max_pixels":"9"})", "mm_processor_kwargs.max_pixels"},
      {R"("mm_processor_kwargs":{"max_pixels":1.5})", "mm_processor_kwargs.max_pixels"},
      {R"("mm_processor_kwargs":{"fps":2})", "mm_processor_kwargs.fps"},
      {R"("mm_processor_kwargs":{"min_pixels":9,"max_pixels":8})",
       "mm_processor_kwargs.min_pixels"},
      {R"("mm_processor_kwargs":{"size":28})", "mm_processor_kwargs.size"},
      {R"("mm_processor_kwargs":{"size":{"width":28}})", "mm_processor_kwargs.size.width"},
      {R"("mm_processor_kwargs":{"size":{"shortest_edge":0}})",
       "mm_processor_kwargs.size.shortest_edge"},
      {R"("logit_bias":[])", "logit_bias"},
      {R"("logit_bias":{"-1":1})", "logit_bias"},
      {R"("logit_bias":{"1e3":1})", "logit_bias"},
      {R"("logit_bias":{"abc":1})", "logit_bias"},
      {R"("logit_bias":{"":1})", "logit_bias"},
      {R"("logit_bias":{" 5":1})", "logit_bias"},
      {R"("logit_bias":{"99999999999":1})", "logit_bias"},
      {R"("logit_bias":{"5":101})", "logit_bias"},
      {R"("logit_bias":{"5":-100.5})", "logit_bias"},
      {R"("logit_bias":{"5":"1"})", "logit_bias"},
      {R"("logit_bias":{"5":null})", "logit_bias"},
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("allowed_token_ids":[])", "allowed_token_ids"},
      {R"("allowed_token_ids":["5"])", "allowed_token_ids"},
      {R"("allowed_token_ids":[-1])", "allowed_token_ids"},
      {R"("allowed_token_ids":5)", "allowed_token_ids"},
      {R"("bad_words":["a",""])", "bad_words"},
      {R"("bad_words":"a")", "bad_words"},
      {R"("bad_words":[1])", "bad_words"},
      {R"("include_stop_str_in_output":1)", "include_stop_str_in_output"},
      {R"("priority":1001)", "priority"},
      {R"("priority":0.5)", "priority"},
      {R"("cache_salt":"")", "cache_salt"},
      {R"("cache_salt":5)", "cache_salt"},
      {R"("metadata":{"a":1})", "metadata"},
      {R"("metadata":[])", "metadata"},
      {R"("user":5)", "user"},
      {R"("store":"yes")", "store"},
      {R"("echo":true)", "echo"},
      {R"("best_of":2)", "best_of"},
      {R"("prompt_logprobs":1)", "prompt_logprobs"},
      {R"("truncate_prompt_tokens":5)", "truncate_prompt_tokens"},
      {R"("chat_template":"x")", "chat_template"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
      {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs"},
      {R"("use_beam_search":true)", "use_beam_search"},
      {R"("continue_final_message":true,"add_generation_prompt":true)", "continue_final_message"},
      {R"("continue_final_message":"yes")", "continue_final_message"},
      {R"("modalities":["text","audio"])", "modalities"},
  };
  for (const Bad& bad : cases) {
    const auto request = parse(bad.text);
    BOOST_TEST_CONTEXT(bad.text) {
      BOOST_REQUIRE(!request);
      BOOST_TEST(request.error().param == bad.param);
      BOOST_TEST(!request.error().code.empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(values_that_ask_for_nothing_are_accepted) {
  for (
      const char* fields :
      {R"("frequency_penalty":0,"presence_penalty":0.0,"repetition_penalty":1,"logit_bias":{})",
       R"("tools":[],"tool_choice":"auto")",
       R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none")",
       R"("tools":[],"parallel_tool_calls":false)",
       R"("response_format":{"type":"text"},"modalities":["text"])",
       R"("stop":[],"top_k":-1,"top_p":0,"min_p":1)",
       R"("user":"u","store":false,"metadata":{"a":"b"},"service_tier":"auto","reasoning_effort":"low")",
       R"("n":1.0,"max_tokens":5.0,"top_k":1000000000000)"}) {
    const auto request = parse(fields);
    BOOST_TEST(request.has_value(), fields);
    if (request) BOOST_TEST(request->labels.unknown_fields.empty(), fields);
  }
}

BOOST_AUTO_TEST_CASE(fields_beyond_openais_arrive) {
  const auto request = parse(
      R"("logit_bias":{"7":-100,"5":2.5,"05":3},"min_tokens":4,"allowed_token_ids":[1,2],"bad_words":["no"],)"
      R"("include_stop_str_in_output":true,"priority":-5,"cache_salt":"s","user":"u",)"
      R"("metadata":{"team":"red"},"chat_template_kwargs":{"enable_thinking":false})");
  BOOST_REQUIRE(request);
  const SamplingFields& sampling = request->sampling;
  BOOST_REQUIRE(sampling.logit_bias.size() == 2U);
  BOOST_TEST(sampling.logit_bias[0].id == 5);
  BOOST_TEST(sampling.logit_bias[1].id == 7);
  BOOST_TEST(sampling.logit_bias[1].bias == -100);
  BOOST_TEST(sampling.min_tokens == 4);
  BOOST_TEST(sampling.allowed_token_ids == (std::vector<int32_t>{1, 2}),
             boost::test_tools::per_element());
  BOOST_TEST(sampling.bad_words == std::vector<std::string>{"no"},
             boost::test_tools::per_element());
  BOOST_TEST(sampling.include_stop);
  BOOST_TEST(sampling.priority == -5);
  BOOST_TEST(sampling.cache_salt == "s");
  BOOST_TEST(request->labels.user == "u");
  BOOST_TEST(request->labels.metadata_json == R"({"team":"red"})");
  BOOST_TEST(request->input.template_kwargs_json == R"({"enable_thinking":false})");
  BOOST_TEST(request->labels.unknown_fields.empty());
}

BOOST_AUTO_TEST_CASE(a_continued_message_asks_for_no_new_turn) {
  const auto request = parse(R"("continue_final_message":true)");
  BOOST_REQUIRE(request);
  BOOST_TEST(request->input.continue_final_message);
  BOOST_TEST(!request->input.add_generation_prompt);
  const auto empty = parse_body(
      R"({"model":"m","messages":[{"role":"assistant","content":""}],"continue_final_message":true})");
  BOOST_REQUIRE(!empty);
  BOOST_TEST(empty.error().param == "continue_final_message");
}

BOOST_AUTO_TEST_CASE(earlier_tool_calls_and_their_answers_arrive) {
  const auto request = parse_messages(
      R"([{"role":"user","content":"x","name":"Ann"},{"role":"assistant","content":null,"tool_calls":[)"
      R"({"id":"c1","type":"function","function":{"name":"f","arguments":"{\"b\":0,\"a\":[1]}"}},)"
      R"({"id":"c2","type":"function","function":{"name":"g","arguments":"not json"}}]},)"
      R"({"role":"assistant","tool_calls":[{"id":"c3","function":{"name":"h"}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"5"}])");
  BOOST_REQUIRE(request);
  const auto& messages = request->input.messages;
  BOOST_TEST(messages[0].name == "Ann");
  BOOST_TEST(
      messages[1].tool_calls_json ==
      R"([{"id":"c1","type":"function","function":{"name":"f","arguments":{"b":0,"a":[1]}}},)"
      R"({"id":"c2","type":"function","function":{"name":"g","arguments":"not json"}}])");
  BOOST_TEST(messages[2].tool_calls_json ==
             R"([{"id":"c3","type":"function","function":{"name":"h","arguments":{}}}])");
  BOOST_TEST(messages[3].tool_call_id == "c1");
}

BOOST_AUTO_TEST_CASE(max_completion_tokens_wins_and_large_numbers_are_clamped) {
  BOOST_TEST(*parse(R"("max_tokens":50,"max_completion_tokens":3)")->sampling.max_tokens == 3);
  BOOST_TEST(*parse(R"("max_tokens":3,"max_completion_tokens":50)")->sampling.max_tokens == 50);
  BOOST_TEST(*parse(R"("max_tokens":1000000000000)")->sampling.max_tokens == INT32_MAX);
}

BOOST_AUTO_TEST_CASE(unknown_fields_are_listed_and_the_last_duplicate_counts) {
  const auto request = parse(R"("frobnicate":1,"max_tokens":5,"max_tokens":6)");
  BOOST_REQUIRE(request);
  BOOST_TEST(request->labels.unknown_fields == std::vector<std::string>{"frobnicate"},
             boost::test_tools::per_element());
  BOOST_TEST(*request->sampling.max_tokens == 6);
}

BOOST_AUTO_TEST_CASE(bodies_that_are_no_request) {
  for (const char* body : {"[]", "null", "1", "\"x\""}) BOOST_TEST(!parse_body(body));
  BOOST_TEST(parse_body("{}").error().param == "model");
  BOOST_TEST(parse_body(R"({"model":1})").error().param == "model");
  BOOST_TEST(parse_body(R"({"model":"m"})").error().param == "messages");
}

BOOST_AUTO_TEST_CASE(a_refused_request_still_tells_its_model_and_stream) {
  for (const char* body :
       {R"({"temperature":9,"stream":true,"model":"m","messages":[{"role":"user","content":"x"}]})",
        R"({"model":"m","stream":true})", R"({"model":"m","stream":true,"messages":[{}]})"}) {
    ChatRequest request;
    BOOST_TEST(!parse_chat_request(body, {}, request), body);
    BOOST_TEST(request.labels.model == "m", body);
    BOOST_TEST(request.stream.stream, body);
  }
}

BOOST_AUTO_TEST_CASE(wrong_messages_name_their_place) {
  const std::vector<Bad> cases = {
      {R"([])", "messages"},
      {R"(null)", "messages"},
      {R"({})", "messages"},
      {R"("hi")", "messages"},
      {R"([null])", "messages[0]"},
      {R"([{}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":[]}])", "messages[0].content"},
      {R"([{"role":"user","content":5}])", "messages[0].content"},
      {R"([{"role":"robot","content":"x"}])", "messages[0].role"},
      {R"([{"role":"function","content":"x"}])", "messages[0].role"},
      {R"([{"role":"user","content":"x"},{"role":"assistant","content":"y","tool_calls":[{}]}])",
       "messages[1].tool_calls[0].function"},
      {R"([{"role":"user","content":"x","tool_calls":[{"function":{"name":"f"}}]}])",
       "messages[0].tool_calls"},
      {R"([{"role":"assistant","tool_calls":5}])", "messages[0].tool_calls"},
      {R"([{"role":"assistant","tool_calls":[{"id":5,"function":{"name":"f"}}]}])",
       "messages[0].tool_calls[0].id"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]}])",
       "messages[0].tool_calls[0].function.name"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"input_audio"}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"text":"x"}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"image_url"}]}])", "messages[0].content[0].image_url"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
       "messages[0].content[0].image_url.url"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x","detail":"huge"}}]}])",
       "messages[0].content[0].image_url.detail"},
      {R"([{"role":"system","content":[{"type":"image_url","image_url":"x"}]}])",
       "messages[0].content[0].type"},
  };
  for (const Bad& bad : cases) {
    const auto request = parse_messages(bad.text);
    BOOST_TEST_CONTEXT(bad.text) {
      BOOST_REQUIRE(!request);
      BOOST_TEST(request.error().param == bad.param);
    }
  }
}

BOOST_AUTO_TEST_CASE(content_keeps_its_order_and_developer_is_system) {
  const auto request = parse_messages(
      R"([{"role":"developer","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]},)"
      R"({"role":"user","content":[{"type":"text","text":"1"},{"type":"image_url","image_url":"data:a"},)"
      R"({"type":"text","text":"2"},{"type":"image_url","image_url":{"url":"data:b","detail":"low"}}]},)"
      R"({"role":"assistant","content":null},{"role":"user","content":""}])");
  BOOST_REQUIRE(request);
  const auto& messages = request->input.messages;
  BOOST_REQUIRE(messages.size() == 4U);
  BOOST_TEST(messages[0].role == "system");
  BOOST_TEST(messages[0].parts[1].text == "B");
  BOOST_REQUIRE(messages[1].parts.size() == 4U);
  BOOST_TEST((messages[1].parts[1].kind == ChatPart::Kind::kImage));
  BOOST_TEST(messages[1].parts[2].text == "2");
  BOOST_TEST(messages[2].content_is_string);
  BOOST_TEST(messages[3].parts[0].text.empty());
  BOOST_REQUIRE(request->images.size() == 2U);
  BOOST_TEST(request->images[0].url == "data:a");
  BOOST_TEST(request->images[1].url == "data:b");
  BOOST_TEST(!request->images[0].low_detail);
  BOOST_TEST(request->images[1].low_detail);
  BOOST_TEST(request->images[1].param == "messages[1].content[3].image_url");
}

BOOST_AUTO_TEST_CASE(pictures_of_the_whole_conversation_count) {
  const std::string picture = R"({"type":"image_url","image_url":"data:a"})";
  const auto message = [&](const std::string& role, int n) {
    std::string parts = picture;
    for (int i = 1; i < n; ++i) parts += "," + picture;
    return R"({"role":")" + role + R"(","content":[)" + parts + "]}";
  };
  BOOST_TEST(parse_messages("[" + message("user", 2) + "]").has_value());
  const auto three = parse_messages("[" + message("user", 2) + "," + message("tool", 1) + "]");
  BOOST_REQUIRE(!three);
  BOOST_TEST(three.error().code == "too_many_images");
  for (const char* word : {"3", "2", "limit_mm_per_prompt"})
    BOOST_TEST(three.error().message.find(word) != std::string::npos, word);
}

BOOST_AUTO_TEST_CASE(the_form_of_an_answer_keeps_the_order_of_its_schema) {
  ChatRequest request;
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema",)"
      R"("json_schema":{"schema":{"properties":{"z":{},"a":{"enum":["é",1.50]}},"type":"object"},"name":"n"}}})";
  BOOST_REQUIRE(parse_chat_request(body, RequestLimits{}, request));
  BOOST_TEST((request.sampling.form.language == Grammar::Language::kJsonSchema));
  BOOST_TEST(request.sampling.form.text ==
             R"({"properties":{"z":{},"a":{"enum":["é",1.5]}},"type":"object"})");
  BOOST_TEST(request.sampling.form.param == "response_format.json_schema.schema");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
