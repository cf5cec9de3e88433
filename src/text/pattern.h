// The "pattern" field of tokenizer.json components: {"String": "..."} or {"Regex": "..."}.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"
#include "text/regex.h"

namespace hs {

// Immutable; may be used from any thread.
class Pattern {
 public:
  // Of the object that holds the field; `where` names it in errors.
  static Result<Pattern> parse(const nlohmann::json& json, std::string_view where);
  static Result<Pattern> regex(std::string_view expression);
  // Calls `found(begin, end)` for each match in order. REQUIRES: text is valid UTF-8.
  void for_each(std::string_view text, FunctionRef<void(size_t, size_t)> found) const;

 private:
  Pattern() = default;
  std::string string_;  // what to look for, where there is no regex_
  std::optional<Regex> regex_;
};

}  // namespace hs
