// Hostile bodies of POST /v1/completions and /v1/responses: no input may crash the parsers, and
// what they accept keeps its promises.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/completion_request.h"
#include "api/response_request.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  hs::CompletionRequest completion;
  if (hs::parse_completion_request(body, {}, completion)) {
    HS_CHECK(!completion.prompts.empty());
    for (const hs::CompletionPrompt& prompt : completion.prompts) {
      HS_CHECK(!prompt.is_tokens || !prompt.token_ids.empty());
      for (const int32_t id : prompt.token_ids) HS_CHECK_GE(id, 0);
    }
    for (const hs::TokenBias& bias : completion.sampling.logit_bias) HS_CHECK_GE(bias.id, 0);
  }
  hs::ResponseRequest response;
  if (hs::parse_response_request(body, {.images_max = 3}, response)) {
    HS_CHECK(!response.chat.input.messages.empty());
    HS_CHECK_LE(response.chat.images.size(), 3U);
    HS_CHECK_EQ(response.chat.sampling.n, 1);
  }
  return 0;
}
