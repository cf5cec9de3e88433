// Hostile bodies of POST /v1/chat/completions: no input may crash the parser, and what it accepts
// keeps its promises.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/chat_request.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  hs::ChatRequest request;
  const hs::Status parsed = hs::parse_chat_request(body, {.images_max = 3}, request);
  if (!parsed) {
    HS_CHECK(!parsed.error().message.empty());
    return 0;
  }
  HS_CHECK(!request.input.messages.empty());
  HS_CHECK_LE(request.images.size(), 3U);
  for (const std::string& stop : request.sampling.stops) HS_CHECK(!stop.empty());
  if (request.image_options.min_pixels) HS_CHECK_GE(*request.image_options.min_pixels, 1);
  if (request.image_options.max_pixels) HS_CHECK_GE(*request.image_options.max_pixels, 1);
  if (request.sampling.repetition_penalty) HS_CHECK(*request.sampling.repetition_penalty > 0);
  if (request.sampling.max_tokens) HS_CHECK_GE(*request.sampling.max_tokens, 1);
  return 0;
}
