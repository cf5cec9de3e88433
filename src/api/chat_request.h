// The body of POST /v1/chat/completions as a typed request: every field checked, each complaint
// with the field's name. Reference: https://platform.openai.com/docs/api-reference/chat/create, and
// vLLM for the fields that OpenAI does not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "text/chat_template.h"

namespace hs {

struct RequestLimits {
  int32_t choices_max = 16;  // `n`
  int32_t images_max = 16;   // of the whole conversation
  size_t stops_max = 16;
  size_t stop_token_ids_max = 64;
};

// A picture as the client names it.
struct ImageSource {
  std::string url;
  std::string param;  // "messages[0].content[1].image_url"
  bool low_detail = false;
};

// How to choose tokens; absent = the model's or OpenAI's default.
struct SamplingFields {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<int32_t> top_k;  // 0 = off
  std::optional<float> repetition_penalty;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  std::optional<uint64_t> seed;
  std::optional<int32_t> max_tokens;  // at least 1
  int32_t n = 1;
  int32_t n_logprobs = -1;  // -1 none, 0 chosen tokens only
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  std::vector<std::string> stops;
  std::vector<int32_t> stop_token_ids;
};

struct StreamFields {
  bool stream = false;
  bool include_usage = false;     // one last chunk with usage
  bool continuous_usage = false;  // usage in every chunk
};

struct ChatRequest {
  std::string model;
  ChatInput input;
  std::vector<ImageSource> images;  // in the order of the image parts of `input`
  ImageOptions image_options;       // of all pictures; low_detail stands at each
  SamplingFields sampling;
  StreamFields stream;
  bool timings = false;  // stage times beside the usage
  std::vector<std::string> unknown_fields;
};

// Fills in what it can also when it fails, because the log names the model of a refused request.
// Errors: kInvalidArgument, and kUnsupported for what OpenAI has and this server does not yet.
Status parse_chat_request(std::string_view body, const RequestLimits& limits, ChatRequest& request);
Status read_chat_request(const nlohmann::json& body, const RequestLimits& limits,
                         ChatRequest& request);

}  // namespace hs
