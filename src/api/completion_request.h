// The body of POST /v1/completions as a typed request. Reference:
// https://platform.openai.com/docs/api-reference/completions/create
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/sampling_fields.h"
#include "base/status.h"

namespace hs {

// Text, or tokens as they are.
struct CompletionPrompt {
  std::string text;
  std::vector<int32_t> token_ids;
  bool is_tokens = false;
};

struct CompletionRequest {
  RequestLabels labels;
  std::vector<CompletionPrompt> prompts;  // at least one
  bool echo = false;                      // the answer begins with the prompt
  bool add_special_tokens = true;         // BOS before a text
  SamplingFields sampling;                // max_tokens may be 0
  StreamFields stream;
};

// As parse_chat_request().
Status parse_completion_request(std::string_view body, const RequestLimits& limits,
                                CompletionRequest& request);

}  // namespace hs
