// Any sequence of ids and any cuts: streamed text is valid UTF-8, and a stop string never comes
// out.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/unicode.h"

namespace {

std::unique_ptr<hs::Tokenizer> small_tokenizer() {
  std::string vocabulary = R"("<s>":256,"a":257,"▁b":258,"▁":259,"end":260)";
  constexpr char kHex[] = "0123456789ABCDEF";
  for (unsigned byte = 0; byte < 256; ++byte)
    vocabulary +=
        std::string(",\"<0x") + kHex[byte / 16] + kHex[byte % 16] + ">\":" + std::to_string(byte);
  auto tokenizer = hs::Tokenizer::parse(
      R"({"added_tokens":[{"id":256,"content":"<s>","special":true}],"model":{"type":"BPE","byte_fallback":true,"merges":[],"vocab":{)" +
      vocabulary +
      R"(}},"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}})");
  HS_CHECK(tokenizer.has_value());
  return std::move(*tokenizer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<hs::Tokenizer> tokenizer = small_tokenizer();
  hs::Detokenizer detokenizer(*tokenizer, size % 2 == 0);
  hs::StopMatcher stops({"end", "\xC3\xA9"});
  std::string sent;
  bool stopped = false;
  const auto send = [&](const std::string& text) {
    HS_CHECK(hs::is_valid_utf8(text));
    const auto output = stops.push(text);
    HS_CHECK(hs::is_valid_utf8(output.text));
    sent += output.text;
    stopped = output.stopped;
  };
  for (size_t i = 0; i + 1 < size && !stopped; i += 2)
    send(detokenizer.push((data[i] << 8 | data[i + 1]) % 262));
  if (!stopped) send(detokenizer.finish());
  if (!stopped) sent += stops.finish();
  HS_CHECK(sent.find("end") == std::string::npos && sent.find("\xC3\xA9") == std::string::npos);
  return 0;
}
