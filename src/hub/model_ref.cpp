#include "hub/model_ref.h"

#include <fmt/format.h>

#include <algorithm>

namespace hs {
namespace {

constexpr size_t kPartBytesMax = 96;
constexpr size_t kRevisionBytesMax = 128;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_plain(std::string_view text, std::string_view also) {
  return std::ranges::all_of(text,
                             [&](char c) { return is_word(c) || also.find(c) != also.npos; }) &&
         text.find("..") == text.npos;
}

bool is_part(std::string_view text) {
  return !text.empty() && text.size() <= kPartBytesMax && is_word(text.front()) &&
         is_plain(text, "._-");
}

bool is_revision(std::string_view text) {
  return text.size() <= kRevisionBytesMax && is_word(text.front()) && text.back() != '/' &&
         text.find("//") == text.npos && is_plain(text, "._-/");
}

}  // namespace

Result<ModelRef> parse_model_ref(std::string_view text) {
  ModelRef ref;
  const size_t at = text.find('@');
  const std::string_view repo = text.substr(0, at);
  if (at != text.npos) ref.revision = text.substr(at + 1);
  const size_t slash = repo.find('/');
  if (slash != repo.npos) {
    ref.org = repo.substr(0, slash);
    ref.name = repo.substr(slash + 1);
  }
  const bool good = is_part(ref.org) && is_part(ref.name) &&
                    (at == text.npos || (!ref.revision.empty() && is_revision(ref.revision)));
  if (!good)
    return fail(ErrorKind::kInvalidArgument,
                "A model is named ORG/NAME or ORG/NAME@REVISION, in letters, digits, '.', '_' "
                "and '-'.",
                "invalid_model_name", "model");
  return ref;
}

}  // namespace hs
