#include "grammar/grammar_cache.h"

#include <algorithm>

namespace hs {

GrammarCache::GrammarCache(std::vector<std::string> token_bytes, std::vector<int32_t> end_ids,
                           bool drops_space)
    : end_ids_(std::move(end_ids)),
      drops_space_(drops_space),
      token_bytes_(std::move(token_bytes)) {}

std::shared_ptr<const TokenTrie> GrammarCache::vocabulary() {
  const std::lock_guard lock(mutex_);
  if (vocabulary_ == nullptr) {
    vocabulary_ = std::make_shared<TokenTrie>(token_bytes_);
    token_bytes_ = {};
  }
  return vocabulary_;
}

std::shared_ptr<Grammar> GrammarCache::find(Grammar::Language language, const std::string& text,
                                            bool optional_space) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.language == language && entry.text == text &&
           entry.optional_space == optional_space;
  });
  if (at == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, at);
  return at->grammar;
}

Result<std::shared_ptr<Grammar>> GrammarCache::get(Grammar::Language language,
                                                   const std::string& text, bool begins_text) {
  const bool optional_space = drops_space_ && begins_text;
  if (std::shared_ptr<Grammar> known = find(language, text, optional_space)) return known;
  Result<std::shared_ptr<Grammar>> made =
      Grammar::make(vocabulary(), end_ids_, language, text, optional_space);
  if (!made) return made;
  (*made)->prepare(kPrepareMaxUs);
  const std::lock_guard lock(mutex_);
  // Another thread may have made it, too; then both are good, and one is kept.
  entries_.push_front({language, text, optional_space, *made});
  if (entries_.size() > kGrammarsMax) entries_.pop_back();
  return made;
}

}  // namespace hs
