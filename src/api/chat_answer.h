// Answers of POST /v1/chat/completions. Written by hand, because one event a token is the API's hot
// path.
#pragma once

#include <memory>

#include "api/answer_format.h"
#include "api/sampling_fields.h"

namespace hs {

// `tokenizer` must outlive the format. Log-probabilities are of all tokens, those of calls too; a
// chunk has those of the tokens that became certain with it.
std::unique_ptr<AnswerFormat> make_chat_answer(const AnswerHead& head, const Tokenizer& tokenizer,
                                               int32_t n_choices, bool with_logprobs,
                                               const StreamFields& stream,
                                               const CallRules& calls = {});

}  // namespace hs
