#include "text/pattern.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "text/json_fields.h"

namespace hs {

Result<Pattern> Pattern::parse(const nlohmann::json& json, std::string_view where) {
  const nlohmann::json* field = json_field(json, "pattern");
  if (field != nullptr && json_field(*field, "Regex") != nullptr) {
    const auto expression = json_string(*field, "Regex", where);
    if (!expression) return std::unexpected(expression.error());
    auto pattern = regex(*expression);
    if (!pattern) pattern.error().message = fmt::format("{}: {}", where, pattern.error().message);
    return pattern;
  }
  if (field != nullptr && json_field(*field, "String") != nullptr) {
    auto text = json_string(*field, "String", where);
    if (!text) return std::unexpected(text.error());
    Pattern pattern;
    pattern.string_ = std::move(*text);
    return pattern;
  }
  return fail(ErrorKind::kDataLoss,
              fmt::format("{}: \"pattern\" must hold \"String\" or \"Regex\"", where));
}

Result<Pattern> Pattern::regex(std::string_view expression) {
  auto compiled = Regex::compile(expression);
  if (!compiled) return std::unexpected(compiled.error());
  Pattern pattern;
  pattern.regex_ = std::move(*compiled);
  return pattern;
}

void Pattern::for_each(std::string_view text, FunctionRef<void(size_t, size_t)> found) const {
  if (regex_) {
    regex_->for_each(text, found);
    return;
  }
  if (string_.empty()) return;
  for (size_t pos = text.find(string_); pos != std::string_view::npos;
       pos = text.find(string_, pos + string_.size()))
    found(pos, pos + string_.size());
}

}  // namespace hs
