// Answers of POST /v1/responses: a message, calls of functions, or both, as a Response object or as
// its typed events.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/answer_format.h"

namespace hs {

// What the Response object repeats of its request.
struct ResponseShape {
  std::optional<std::string> instructions;
  std::optional<int32_t> max_output_tokens;
  std::string metadata_json = "{}";
  std::string format_json = R"({"type":"text"})";  // text.format, as the client gave it
  std::string tools_json = "[]";
  std::string tool_choice_json = R"("auto")";
  bool parallel_tool_calls = true;
  CallRules calls;
  float temperature = 1;
  float top_p = 1;
  int32_t n_logprobs = -1;
  bool stream = false;
};

// `tokenizer` must outlive the format. Events: response.created, in_progress, then of each item
// output_item.added, of a message content_part.added, output_text.delta ..., output_text.done,
// content_part.done, of a call function_call_arguments.delta ..., function_call_arguments.done, and
// output_item.done; then response.completed, incomplete (the limit ended it) or failed. There is no
// "[DONE]". Log-probabilities are those of messages' tokens.
std::unique_ptr<AnswerFormat> make_response_answer(const AnswerHead& head,
                                                   const Tokenizer& tokenizer, ResponseShape shape);

}  // namespace hs
