// Any bytes as a chat template: an error or an output whose literal spans lie in order within it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto chat = hs::ChatTemplate::parse(source, "<s>", "</s>");
  if (!chat) return 0;
  hs::ChatInput input;
  input.messages.push_back({"system", {{hs::ChatPart::Kind::kText, "be brief"}}, true});
  input.messages.push_back(
      {"user",
       {{hs::ChatPart::Kind::kImage, ""}, {hs::ChatPart::Kind::kText, "a \xC3\xA9 <s>"}},
       false});
  const auto prompt = (*chat)->render(input);
  if (!prompt) return 0;
  size_t done = 0;
  for (const hs::TextSpan& span : prompt->literal) {
    HS_CHECK(span.begin >= done && span.end > span.begin);
    done = span.end;
  }
  HS_CHECK(done <= prompt->text.size());
  return 0;
}
