// The body of POST /v1/responses as a typed request: a chat, told in the words of the Responses
// API. Stateless: nothing is stored, and a request that leans on something stored is refused.
// Reference: https://platform.openai.com/docs/api-reference/responses/create
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "api/chat_request.h"
#include "api/response_answer.h"
#include "base/status.h"

namespace hs {

struct ResponseRequest {
  ChatRequest chat;
  std::string instructions;
  bool has_instructions = false;
  std::string format_json = R"({"type":"text"})";  // text.format, as it came
};

// As parse_chat_request().
Status parse_response_request(std::string_view body, const RequestLimits& limits,
                              ResponseRequest& request);

// `input`, `instructions`, `tools` and what else makes the prompt. `text`: the body as it came.
// Errors go to `body`.
void read_response_prompt(ObjectReader& body, std::string_view text, const RequestLimits& limits,
                          ResponseRequest& request);

// What the answer repeats of the request; temperature and top_p are left to the caller.
ResponseShape shape_of(const ResponseRequest& request, const std::string& metadata_json);

}  // namespace hs
