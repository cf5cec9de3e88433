// JSON Schema (draft 2020-12) to the texts that satisfy it.
//
// What is taken: type (also a list), properties, required, additionalProperties, items,
// prefixItems, minItems, maxItems, enum, const, anyOf, oneOf (whose branches exclude each other by
// type or by a constant property), allOf (of one schema, or of objects), $ref to #, #/$defs and
// #/definitions, minLength, maxLength, pattern, format (date, time, date-time, uuid, ipv4, email),
// and minimum, maximum and their exclusive forms of integers. Annotations are ignored. Everything
// else that could make a text invalid is refused, never overlooked.
//
// A text may be one of fewer than the schema allows: properties come in the order in which they are
// declared, and others only where additionalProperties says so.
#pragma once

#include <string_view>

#include "base/status.h"
#include "grammar/expression.h"

namespace hs {

// Errors: kInvalidArgument for what is no schema, kUnsupported for what is not taken; `param` is
// the place in the schema ("properties.age.multipleOf").
Result<Expr> parse_json_schema(ExpressionPool& pool, std::string_view schema);

}  // namespace hs
