#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace hs {
namespace {

bool word_before(std::string_view text, size_t pos) {
  return pos > 0 && is_word_char(previous_char(text, pos));
}

bool word_behind(std::string_view text, size_t pos) {
  return pos < text.size() && is_word_char(next_char(text, pos));
}

size_t skip_space_left(std::string_view text, size_t pos) {
  while (pos > 0) {
    size_t before = pos;
    if (!is_whitespace(previous_char(text, before))) break;
    pos = before;
  }
  return pos;
}

size_t skip_space_right(std::string_view text, size_t pos) {
  while (pos < text.size()) {
    size_t behind = pos;
    if (!is_whitespace(next_char(text, behind))) break;
    pos = behind;
  }
  return pos;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::ranges::stable_sort(tokens_, {}, &AddedToken::content);
  const auto repeated = std::ranges::unique(tokens_, {}, &AddedToken::content);
  tokens_.erase(repeated.begin(), repeated.end());
  first_index_.assign(257, 0);
  for (const AddedToken& token : tokens_)
    ++first_index_[static_cast<unsigned char>(token.content[0]) + 1U];
  for (size_t i = 1; i < first_index_.size(); ++i) first_index_[i] += first_index_[i - 1];
}

// The longest token that `text` starts with: the range of tokens that share the first bytes narrows
// byte by byte.
const AddedToken* AddedTokenMatcher::longest_at(std::string_view text) const {
  const auto byte = static_cast<unsigned char>(text[0]);
  auto low = tokens_.begin() + first_index_[byte];
  auto high = tokens_.begin() + first_index_[byte + 1U];
  const AddedToken* best = nullptr;
  for (size_t depth = 1; low != high; ++depth) {
    if (low->content.size() == depth) best = &*low++;
    if (depth == text.size()) break;
    const auto wanted = static_cast<unsigned char>(text[depth]);
    const auto byte_of = [depth](const AddedToken& token) {
      return static_cast<unsigned char>(token.content[depth]);
    };
    low = std::partition_point(low, high,
                               [&](const AddedToken& token) { return byte_of(token) < wanted; });
    high = std::partition_point(low, high,
                                [&](const AddedToken& token) { return byte_of(token) == wanted; });
  }
  return best;
}

void AddedTokenMatcher::split(std::string_view text, std::span<const TextSpan> literal,
                              FunctionRef<void(const AddedToken*, size_t, size_t)> piece) const {
  size_t done = 0;
  size_t next_literal = 0;
  for (size_t pos = 0; pos < text.size() && !tokens_.empty();) {
    while (next_literal < literal.size() && literal[next_literal].end <= pos) ++next_literal;
    size_t limit = text.size();
    if (next_literal < literal.size()) {
      if (literal[next_literal].begin <= pos) {
        pos = std::max(pos + 1, literal[next_literal].end);
        continue;
      }
      limit = std::min(limit, literal[next_literal].begin);
    }
    const AddedToken* token = longest_at(text.substr(pos, limit - pos));
    if (token == nullptr) {
      ++pos;
      continue;
    }
    size_t begin = pos;
    size_t end = pos + token->content.size();
    pos = end;
    if (token->single_word && (word_before(text, begin) || word_behind(text, end))) continue;
    if (token->lstrip) begin = skip_space_left(text, begin);
    if (token->rstrip) end = skip_space_right(text, end);
    begin = std::max(begin, done);
    if (end < begin) continue;  // inside the white space that the token before took
    if (begin > done) piece(nullptr, done, begin);
    piece(token, begin, end);
    done = end;
  }
  if (done < text.size()) piece(nullptr, done, text.size());
}

}  // namespace hs
