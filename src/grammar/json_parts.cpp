#include "grammar/json_parts.h"

#include <algorithm>

#include "base/check.h"
#include "grammar/code_points.h"

namespace hs {
namespace {

constexpr int32_t kIndentationMax = 20;
constexpr int32_t kMoreDigits = 15;
constexpr int32_t kUnlimited = ExpressionPool::kUnlimited;

Expr digits(ExpressionPool& pool, char first, char last) {
  return pool.one_of(ByteSet::range(static_cast<uint8_t>(first), static_cast<uint8_t>(last)));
}

// What may stand in a string as itself.
CodePointSet unescaped() {
  CodePointSet escaped = CodePointSet::of(0, 0x1F);
  escaped.add('"', '"');
  escaped.add('\\', '\\');
  return escaped.complement();
}

}  // namespace

JsonParts::JsonParts(ExpressionPool& pool) : pool_(pool) {
  const auto one_of_chars = [&](std::string_view chars) {
    ByteSet set;
    for (const char c : chars) set.add(static_cast<uint8_t>(c));
    return pool.one_of(set);
  };
  space_ = pool.either(
      {kEmptyText, pool.literal(" "),
       pool.sequence({pool.literal("\n"), pool.repeat(one_of_chars(" \t"), 0, kIndentationMax)})});

  const Expr any_hex = one_of_chars("0123456789abcdefABCDEF");
  // \uD800 to \uDFFF are halves of a pair.
  const Expr two = pool.sequence({any_hex, any_hex});
  const Expr low =
      pool.sequence({pool.literal("\\u"), one_of_chars("dD"), one_of_chars("cdefCDEF"), two});
  const Expr escape = pool.either(
      {one_of_chars("\"\\/bfnrt"),
       pool.sequence(
           {pool.literal("u"),
            pool.either(
                {pool.sequence({one_of_chars("0123456789abcefABCEF"), any_hex, two}),
                 pool.sequence({one_of_chars("dD"), one_of_chars("01234567"), two}),
                 pool.sequence({one_of_chars("dD"), one_of_chars("89abAB"), two, low})})})});
  string_char_ =
      pool.either({utf8_of(pool, unescaped()), pool.sequence({pool.literal("\\"), escape})});
  string_ = quoted(pool.any_number_of(string_char_));

  const Expr digit = digits(pool, '0', '9');
  const Expr natural =
      pool.either({pool.literal("0"),
                   pool.sequence({digits(pool, '1', '9'), pool.repeat(digit, 0, kMoreDigits)})});
  const Expr minus = pool.optional(pool.literal("-"));
  integer_ = pool.sequence({minus, natural});
  number_ = pool.sequence(
      {integer_,
       pool.optional(pool.sequence({pool.literal("."), pool.repeat(digit, 1, kMoreDigits + 1)})),
       pool.optional(pool.sequence(
           {one_of_chars("eE"), pool.optional(one_of_chars("+-")), pool.repeat(digit, 1, 2)}))});
  boolean_ = pool.either({pool.literal("true"), pool.literal("false")});
  null_ = pool.literal("null");

  value_ = pool.new_rule();
  array_ = array_of(value_, 0, kUnlimited);
  const Expr member = pool.sequence({string_, pool.literal(":"), space_, value_});
  const Expr more = pool.any_number_of(pool.sequence({pool.literal(","), space_, member}));
  object_ =
      pool.sequence({pool.literal("{"), space_,
                     pool.optional(pool.sequence({member, more, space_})), pool.literal("}")});
  pool.define(value_, pool.either({object_, array_, string_, number_, boolean_, null_}));
}

Expr JsonParts::quoted(Expr body) {
  return pool_.sequence({pool_.literal("\""), body, pool_.literal("\"")});
}

Expr JsonParts::array_of(Expr item, int32_t min, int32_t max) {
  const Expr open = pool_.sequence({pool_.literal("["), space_});
  const Expr close = pool_.literal("]");
  if (max == 0) return pool_.sequence({open, close});
  const Expr next = pool_.sequence({pool_.literal(","), space_, item});
  const Expr items = pool_.sequence(
      {item, pool_.repeat(next, std::max(min - 1, 0), max == kUnlimited ? kUnlimited : max - 1),
       space_});
  return pool_.sequence({open, min == 0 ? pool_.optional(items) : items, close});
}

Expr JsonParts::constant(std::string_view json) {
  // White space may follow an opening bracket, a comma and a colon, and stand before a closing one.
  std::vector<Expr> parts;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    const bool closes = !in_string && (c == '}' || c == ']');
    if (closes) parts.push_back(space_);
    parts.push_back(pool_.literal(json.substr(i, 1)));
    if (in_string && c == '\\') {
      parts.push_back(pool_.literal(json.substr(++i, 1)));
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '{' || c == '[' || c == ',' || c == ':')) {
      const bool is_closed = i + 1 < json.size() && (json[i + 1] == '}' || json[i + 1] == ']');
      if (!is_closed) parts.push_back(space_);
    }
  }
  return pool_.sequence(parts);
}

Expr JsonParts::other_key(std::span<const std::string> names) {
  const Expr body = pool_.any_number_of(utf8_of(pool_, unescaped()));
  std::vector<Expr> taken;
  for (const std::string& name : names) taken.push_back(pool_.literal(name));
  return quoted(pool_.except(body, pool_.either(taken)));
}

// ---- integers

// Equally many digits, low <= high.
Expr JsonParts::digits_between(std::string_view low, std::string_view high) {
  HS_CHECK_EQ(low.size(), high.size());
  if (low.empty()) return kEmptyText;
  const std::string zeros(low.size() - 1, '0'), nines(low.size() - 1, '9');
  if (low[0] == high[0]) {
    return pool_.sequence(
        {pool_.literal(low.substr(0, 1)), digits_between(low.substr(1), high.substr(1))});
  }
  std::vector<Expr> parts = {
      pool_.sequence({pool_.literal(low.substr(0, 1)), digits_between(low.substr(1), nines)}),
      pool_.sequence({pool_.literal(high.substr(0, 1)), digits_between(zeros, high.substr(1))})};
  if (high[0] - low[0] > 1) {
    const auto n = static_cast<int32_t>(zeros.size());
    parts.push_back(pool_.sequence(
        {digits(pool_, static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)),
         pool_.repeat(digits(pool_, '0', '9'), n, n)}));
  }
  return pool_.either(parts);
}

Expr JsonParts::naturals_between(uint64_t min, uint64_t max) {
  if (min > max) return kNoText;
  std::vector<Expr> parts;
  std::string low = std::to_string(min);
  const std::string high = std::to_string(max);
  while (low.size() < high.size()) {
    parts.push_back(digits_between(low, std::string(low.size(), '9')));
    low = "1" + std::string(low.size(), '0');
  }
  parts.push_back(digits_between(low, high));
  return pool_.either(parts);
}

Expr JsonParts::naturals_from(uint64_t min) {
  const std::string low = std::to_string(min);
  const auto n = static_cast<int32_t>(low.size());
  return pool_.either(
      {digits_between(low, std::string(low.size(), '9')),
       pool_.sequence({digits(pool_, '1', '9'),
                       pool_.repeat(digits(pool_, '0', '9'), n, n - 1 + kMoreDigits)})});
}

Expr JsonParts::integer_between(std::optional<int64_t> min, std::optional<int64_t> max) {
  const auto magnitude = [](int64_t v) {
    return v < 0 ? uint64_t{0} - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  };
  if (min && max && *min > *max) return kNoText;
  std::vector<Expr> parts;
  if (!max || *max >= 0) {
    const uint64_t from = min && *min > 0 ? magnitude(*min) : 0;
    parts.push_back(max ? naturals_between(from, magnitude(*max)) : naturals_from(from));
  }
  if (!min || *min < 0) {
    const uint64_t from = max && *max < 0 ? magnitude(*max) : 1;
    parts.push_back(pool_.sequence(
        {pool_.literal("-"), min ? naturals_between(from, magnitude(*min)) : naturals_from(from)}));
  }
  return pool_.either(parts);
}

// ---- numbers

// Bounds of at least 0.
Expr JsonParts::magnitudes_between(const Bound& min, const Bound& max) {
  const auto from = static_cast<uint64_t>(*min.value);
  const Expr digit = digits(pool_, '0', '9'), point = pool_.literal("."), zero = pool_.literal("0");
  const Expr fraction =
      pool_.optional(pool_.sequence({point, pool_.repeat(digit, 1, kMoreDigits + 1)}));
  const Expr zeros =
      pool_.optional(pool_.sequence({point, pool_.repeat(zero, 1, kMoreDigits + 1)}));
  const Expr above_zero =
      pool_.sequence({point, pool_.repeat(zero, 0, kMoreDigits), digits(pool_, '1', '9'),
                      pool_.repeat(digit, 0, kMoreDigits)});
  const Expr lowest =
      pool_.sequence({naturals_between(from, from), min.exclusive ? above_zero : fraction});
  if (!max.value)
    return pool_.either({lowest, pool_.sequence({naturals_from(from + 1), fraction})});
  const auto to = static_cast<uint64_t>(*max.value);
  if (from == to) {
    if (min.exclusive || max.exclusive) return kNoText;
    return pool_.sequence({naturals_between(to, to), zeros});
  }
  const Expr highest = max.exclusive ? kNoText : pool_.sequence({naturals_between(to, to), zeros});
  return pool_.either(
      {lowest, pool_.sequence({naturals_between(from + 1, to - 1), fraction}), highest});
}

Expr JsonParts::number_between(const Bound& min, const Bound& max) {
  if (min.value && max.value && *min.value > *max.value) return kNoText;
  const auto negated = [](const Bound& bound) {
    return Bound{bound.value ? std::optional(-*bound.value) : std::nullopt, bound.exclusive};
  };
  constexpr Bound kFromZero{.value = 0, .exclusive = false},
      kAboveZero{.value = 0, .exclusive = true};
  std::vector<Expr> parts;
  if (!max.value || *max.value >= 0)
    parts.push_back(magnitudes_between(min.value && *min.value >= 0 ? min : kFromZero, max));
  if (!min.value || *min.value < 0) {
    const Bound from = max.value && *max.value < 0 ? negated(max) : kAboveZero;
    parts.push_back(pool_.sequence({pool_.literal("-"), magnitudes_between(from, negated(min))}));
  }
  return pool_.either(parts);
}

}  // namespace hs
