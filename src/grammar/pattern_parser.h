// Regular expressions, of the dialect of ECMAScript (JSON Schema's) without what is not regular, to
// expressions: no look-around, back references, word borders or flags. `.` is any character but
// line ends; \d, \w and \s are ASCII. Lazy quantifiers describe the same texts.
#pragma once

#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"
#include "grammar/code_points.h"
#include "grammar/expression.h"

namespace hs {

struct PatternOptions {
  // true: the whole text matches; false: some part does, unless ^ and $ say more.
  bool whole = true;
};

// `char_of` writes one character of a set: utf8_of, or json_string_char_of inside a JSON string.
// Errors: kInvalidArgument, saying what at which place of the pattern.
Result<Expr> parse_pattern(ExpressionPool& pool, std::string_view pattern, PatternOptions options,
                           FunctionRef<Expr(const CodePointSet&)> char_of);

}  // namespace hs
