// Answers of POST /v1/completions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/answer_format.h"
#include "api/sampling_fields.h"

namespace hs {

// What an answer that echoes begins with.
struct EchoedPrompt {
  std::string text;
  std::vector<int32_t> token_ids;
};

struct CompletionShape {
  int32_t n_prompts = 1;
  int32_t n_choices = 1;    // of each prompt
  int32_t n_logprobs = -1;  // as GenerateRequest's
  bool skip_special_tokens = true;
  std::vector<EchoedPrompt> echo;  // one a prompt, or none
  StreamFields stream;
};

// `tokenizer` must outlive the format.
std::unique_ptr<AnswerFormat> make_completion_answer(const AnswerHead& head,
                                                     const Tokenizer& tokenizer,
                                                     CompletionShape shape);

}  // namespace hs
