// Answers of POST /v1/responses: one message, as a Response object or as its typed events.
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
  float temperature = 1;
  float top_p = 1;
  int32_t n_logprobs = -1;
  bool stream = false;
};

// `tokenizer` must outlive the format. Events: response.created, in_progress, output_item.added,
// content_part.added, output_text.delta ..., output_text.done, content_part.done, output_item.done,
// then response.completed, incomplete (the limit ended it) or failed. There is no "[DONE]".
std::unique_ptr<AnswerFormat> make_response_answer(const AnswerHead& head,
                                                   const Tokenizer& tokenizer, ResponseShape shape);

}  // namespace hs
