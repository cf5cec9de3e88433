// The kinds of languages that a request can ask for.
#pragma once

#include <string_view>

#include "base/status.h"
#include "grammar/expression.h"

namespace hs {

enum class Language { kJsonObject, kJsonSchema, kRegex, kChoice, kTools };

// `text`: the schema, the pattern (which matches the whole text), a JSON array of strings, or
// ToolGrammar::to_text(); not used for kJsonObject. Errors: as parse_json_schema, parse_pattern and
// parse_tool_grammar.
Result<Expr> parse_language(ExpressionPool& pool, Language language, std::string_view text);

}  // namespace hs
