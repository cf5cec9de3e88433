// POST /tokenize and /detokenize, in vLLM's shapes. Runs on a worker thread.
#pragma once

#include "api/preparation.h"
#include "http/handler.h"

namespace hs {

// {"prompt": text} or {"messages": [...]} (llama.cpp's "content" is taken for "prompt") ->
// {"count":..,"max_model_len":..,"tokens":[..],"token_strs":[..] or null}. Pictures count with
// their placeholders.
HttpResponse answer_tokenize(const PreparationInput& input);

// {"tokens": [..]} -> {"prompt": text}
HttpResponse answer_detokenize(const PreparationInput& input);

}  // namespace hs
