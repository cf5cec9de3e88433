#include "grammar/language.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/json_parts.h"
#include "grammar/json_schema.h"
#include "grammar/pattern_parser.h"
#include "grammar/tool_grammar.h"

namespace hs {
namespace {

Result<Expr> parse_choice(ExpressionPool& pool, std::string_view text) {
  const nlohmann::json choices = nlohmann::json::parse(text, nullptr, false);
  std::vector<Expr> options;
  if (choices.is_array()) {
    for (const auto& choice : choices) {
      if (!choice.is_string())
        return fail(ErrorKind::kInvalidArgument, "A choice must be a string.");
      options.push_back(pool.literal(choice.get_ref<const std::string&>()));
    }
  }
  if (options.empty())
    return fail(ErrorKind::kInvalidArgument, "There must be at least one choice.");
  return pool.either(options);
}

}  // namespace

Result<Expr> parse_language(ExpressionPool& pool, Language language, std::string_view text) {
  switch (language) {
    case Language::kJsonObject:
      return JsonParts(pool).object();
    case Language::kJsonSchema:
      return parse_json_schema(pool, text);
    case Language::kRegex:
      return parse_pattern(pool, text, {.whole = true},
                           [&](const CodePointSet& set) { return utf8_of(pool, set); });
    case Language::kTools:
      return parse_tool_grammar(pool, text);
    case Language::kChoice:
      break;
  }
  return parse_choice(pool, text);
}

}  // namespace hs
