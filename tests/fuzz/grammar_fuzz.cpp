// Any bytes as a JSON Schema, a pattern, choices or functions: an error, or a grammar whose masks
// agree with what single bytes do.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "grammar/grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto vocabulary = [] {
    std::vector<std::string> bytes = {""};
    for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
    bytes.insert(bytes.end(), {"{\"", "\":", "\"}", "true", "12", "ab"});
    return std::make_shared<const hs::TokenTrie>(bytes);
  }();
  if (size == 0) return 0;
  using Language = hs::Grammar::Language;
  constexpr Language kLanguages[] = {Language::kJsonSchema, Language::kRegex, Language::kChoice,
                                     Language::kTools};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto grammar =
      hs::Grammar::make(vocabulary, {0}, kLanguages[data[0] % 4], text, data[0] % 2 == 0);
  if (!grammar) {
    HS_CHECK(!grammar.error().message.empty());
    return 0;
  }
  hs::Expr state = (*grammar)->start();
  for (int i = 0; i < 12 && !(*grammar)->must_end(state); ++i) {
    const auto mask = (*grammar)->mask(state);
    if (!mask) return 0;
    int32_t next = -1;
    for (int32_t id = 1; id < vocabulary->vocabulary_size(); ++id) {
      const bool possible = (*grammar)->after(state, id) != hs::kNoText;
      HS_CHECK_EQ((*mask)->has(id), possible);
      if (possible && (next < 0 || (id * 31 + i * 7) % 5 == 0)) next = id;
    }
    HS_CHECK_EQ((*mask)->has(0), (*grammar)->may_end(state));
    if (next < 0) return 0;
    state = (*grammar)->after(state, next);
  }
  return 0;
}
