// POST /tokenize and /detokenize, in vLLM's shapes, and counting. Runs on a worker thread.
#pragma once

#include "api/preparation.h"
#include "http/handler.h"

namespace hs {

// {"prompt": text} or {"messages": [...]} (llama.cpp's "content" is taken for "prompt") ->
// {"count":..,"max_model_len":..,"tokens":[..],"token_strs":[..] or null}. Pictures count with
// their placeholders.
HttpResponse answer_tokenize(const PreparationInput& input);

// How many tokens a chat, or a response, would take as its input, pictures included: the body of
// such a request without what only an answer needs.
// {"object":"response.input_tokens","input_tokens":..,
// "input_tokens_details":{"image_tokens":..,"text_tokens":..}}, as OpenAI's count for responses.
HttpResponse answer_chat_count(const PreparationInput& input);
HttpResponse answer_response_count(const PreparationInput& input);

// {"tokens": [..]} -> {"prompt": text}
HttpResponse answer_detokenize(const PreparationInput& input);

}  // namespace hs
