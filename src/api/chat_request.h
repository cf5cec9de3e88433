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

#include "api/sampling_fields.h"
#include "api/tool_fields.h"
#include "base/status.h"
#include "model/model.h"
#include "text/chat_template.h"

namespace hs {

// A picture as the client names it.
struct ImageSource {
  std::string url;
  std::string param;  // "messages[0].content[1].image_url"
  bool low_detail = false;
};

struct ChatRequest {
  RequestLabels labels;
  ChatInput input;
  std::vector<ImageSource> images;  // in the order of the image parts of `input`
  ImageOptions image_options;       // of all pictures; low_detail stands at each
  ToolFields tools;                 // as input.tools_json has them
  SamplingFields sampling;
  StreamFields stream;
};

// Fills in what it can also when it fails, because the log names the model of a refused request.
// Errors: kInvalidArgument, and kUnsupported for what OpenAI has and this server does not yet.
Status parse_chat_request(std::string_view body, const RequestLimits& limits, ChatRequest& request);
// `text`: the body as it came.
Status read_chat_request(const nlohmann::json& body, std::string_view text,
                         const RequestLimits& limits, ChatRequest& request);

// What makes the prompt of a chat: messages, pictures, tools, template settings. `text`: the body
// as it came. Errors go to `body`.
void read_chat_prompt(ObjectReader& body, std::string_view text, const RequestLimits& limits,
                      ChatRequest& request);

}  // namespace hs
