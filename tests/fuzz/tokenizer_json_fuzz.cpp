// Any bytes as tokenizer.json: an error or a tokenizer that encodes and decodes without a fault.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // What follows a NUL is a text to encode.
  const size_t nul = text.find('\0');
  const auto tokenizer = hs::Tokenizer::parse(text.substr(0, nul));
  if (!tokenizer) return 0;
  const std::string_view sample =
      nul == std::string_view::npos ? "a <s> \xC3\xA9\xFF" : text.substr(nul + 1);
  const hs::TextSpan literal{sample.size() / 3, sample.size() / 2};
  const auto ids = (*tokenizer)->encode(sample, {true, {&literal, 1}});
  (void)(*tokenizer)->decode(ids, ids.size() % 2 == 0);
  return 0;
}
