#include "text/detokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/unicode.h"

namespace hs {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens, Start start)
    : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {
  if (start == Start::kContinuation) return;
  leading_spaces_to_drop_ = tokenizer.leading_spaces_dropped();
  drop_spaces_of_next_token_ = tokenizer.drops_spaces_of_first_token();
}

std::string Detokenizer::push(int32_t id) {
  if (skip_special_tokens_ && tokenizer_->is_special(id)) return {};
  if (tokenizer_->token(id).empty()) return {};
  std::string bytes = tokenizer_->token_bytes(id);
  if (std::exchange(drop_spaces_of_next_token_, false))
    bytes.erase(0, std::min(bytes.find_first_not_of(' '), bytes.size()));
  size_t dropped = 0;
  while (leading_spaces_to_drop_ > 0 && dropped < bytes.size()) {
    if (bytes[dropped] != ' ') {
      leading_spaces_to_drop_ = 0;
    } else {
      ++dropped;
      --leading_spaces_to_drop_;
    }
  }
  pending_.append(bytes, dropped);

  // A text holds no part of a character but at its end: everything before an incomplete end is
  // certain.
  std::string out;
  size_t done = 0;
  while (done < pending_.size()) {
    const std::string_view rest = std::string_view(pending_).substr(done);
    const Utf8Prefix prefix = utf8_prefix(rest);
    if (prefix.kind == Utf8Prefix::Kind::kIncomplete) break;
    out += prefix.kind == Utf8Prefix::Kind::kCharacter ? rest.substr(0, prefix.bytes)
                                                       : kReplacementChar;
    done += prefix.bytes;
  }
  pending_.erase(0, done);
  return out;
}

std::string Detokenizer::finish() {
  std::string out;
  append_lossy(out, std::exchange(pending_, {}));
  return out;
}

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) HS_CHECK(!stop.empty());
}

StopMatcher::Output StopMatcher::push(std::string_view text) {
  if (stopped_) return {{}, true, {}};
  held_ += text;
  // The stop that is complete first counts, of those that end at one place the longest: the same
  // however the text was cut into pieces.
  size_t first = std::string::npos;
  const std::string* found = nullptr;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    const size_t found_end = found == nullptr ? 0 : first + found->size();
    if (found == nullptr || end < found_end || (end == found_end && at < first)) {
      first = at;
      found = &stop;
    }
  }
  if (found != nullptr) {
    Output output{held_.substr(0, first), true, *found};
    held_.clear();
    stopped_ = true;
    return output;
  }
  size_t held_bytes = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > held_bytes; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) held_bytes = n;
  }
  Output output;
  output.text = held_.substr(0, held_.size() - held_bytes);
  held_.erase(0, held_.size() - held_bytes);
  return output;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace hs
