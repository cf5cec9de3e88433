// Vocabularies and texts for the grammar's tests.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/expression.h"
#include "grammar/token_trie.h"

namespace hs {

// Whether the whole text is in the language.
inline bool matches(ExpressionPool& pool, Expr language, std::string_view text) {
  for (const char c : text) language = pool.derivative(language, static_cast<uint8_t>(c));
  return pool.has_empty(language);
}

// All bytes, then what JSON is made of in longer pieces, then pieces drawn from it; id 0 has no
// bytes and ends a text.
inline std::shared_ptr<const TokenTrie> json_vocabulary(std::mt19937& random, int n_drawn) {
  std::vector<std::string> tokens = {""};
  for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
  const std::vector<std::string> pieces = {
      "{\"", "\":", "\": ", "\", \"", "\"}", "\"}}", "\"]",  "\",", "true", "false", "null",  "},{",
      "]}",  "[[",  "],[",  "12",     "0.5", "name", " the", "é",   "日本", "\\n",   "\\u00", "  "};
  tokens.insert(tokens.end(), pieces.begin(), pieces.end());
  for (int i = 0; i < n_drawn; ++i) {
    std::string token;
    for (size_t k = random() % 3 + 1; k > 0; --k) token += tokens[random() % tokens.size()];
    tokens.push_back(token);
  }
  return std::make_shared<TokenTrie>(tokens);
}

}  // namespace hs
