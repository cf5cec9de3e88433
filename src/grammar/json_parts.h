// The pieces of JSON texts (RFC 8259) as expressions.
//
// White space between tokens is at most one blank, or a line break with an indentation of up to 20
// blanks or tabs: what models write, and no room to write nothing for ever.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "grammar/expression.h"

namespace hs {

class JsonParts {
 public:
  explicit JsonParts(ExpressionPool& pool);

  Expr space() const { return space_; }
  Expr string_char() const { return string_char_; }  // one character, escaped or not
  Expr string() const { return string_; }
  Expr integer() const { return integer_; }
  Expr number() const { return number_; }
  Expr boolean() const { return boolean_; }
  Expr null() const { return null_; }
  Expr value() const { return value_; }    // any
  Expr object() const { return object_; }  // any
  Expr array() const { return array_; }    // any

  // "[" items "]": min to max times `item` with commas between; kUnlimited: no maximum.
  Expr array_of(Expr item, int32_t min, int32_t max);
  // A text of this value. `json`: compact, as nlohmann's dump() writes it.
  Expr constant(std::string_view json);
  // Integers of [min, max], either may be absent. Those without a maximum have up to 15 digits more
  // than the minimum.
  Expr integer_between(std::optional<int64_t> min, std::optional<int64_t> max);
  struct Bound {
    std::optional<int64_t> value;
    bool exclusive = false;
  };
  // Numbers between bounds, without exponents; with as many digits as integer_between and as many
  // again behind the point.
  Expr number_between(const Bound& min, const Bound& max);
  // A string whose characters, decoded, are what `body` describes; see json_string_char_of.
  Expr quoted(Expr body);
  // A key that is none of `names` and needs no escape.
  Expr other_key(std::span<const std::string> names);

 private:
  Expr digits_between(std::string_view low, std::string_view high);
  Expr naturals_from(uint64_t min);
  Expr naturals_between(uint64_t min, uint64_t max);
  Expr magnitudes_between(const Bound& min, const Bound& max);

  ExpressionPool& pool_;
  Expr space_, string_char_, string_, integer_, number_, boolean_, null_, value_, object_, array_;
};

}  // namespace hs
