#include "text/jinja_number_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "text/jinja_text_ops.h"

namespace hs::jinja {
namespace {

// Python's int(text, base) for texts; nothing where it would fail.
std::optional<int64_t> parse_integer(std::string_view text, int base) {
  const Text stripped = strip(Text(text), nullptr, true, true);
  std::string digits;
  for (const char c : stripped.bytes)
    if (c != '_') digits += c;
  const char* begin = digits.data();
  const char* end = begin + digits.size();
  if (begin != end && *begin == '+') ++begin;
  const bool negative = begin != end && *begin == '-';
  if (negative) ++begin;
  const char prefix = base == 16 ? 'x' : base == 8 ? 'o' : 'b';
  if ((base == 16 || base == 8 || base == 2) && end - begin > 2 && *begin == '0' &&
      (begin[1] | 0x20) == prefix)
    begin += 2;
  int64_t value = 0;
  const auto result = std::from_chars(begin, end, value, base);
  if (result.ec != std::errc() || result.ptr != end || begin == end || *begin == '-')
    return std::nullopt;
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  const Text stripped = strip(Text(text), nullptr, true, true);
  const char* begin = stripped.bytes.data();
  const char* end = begin + stripped.bytes.size();
  if (begin != end && *begin == '+') ++begin;
  double value = 0;
  const auto result = std::from_chars(begin, end, value);
  if (result.ec != std::errc() || result.ptr != end || begin == end) return std::nullopt;
  return value;
}

}  // namespace

Value filter_int(Interpreter&, const Value& input, const CallArgs& args) {
  const ArgReader reader("int", args, {"default", "base"});
  const Value absent = reader.get(0) == nullptr ? Value(int64_t{0}) : *reader.get(0);
  if (input.is_text()) {
    const auto base = static_cast<int>(std::clamp<int64_t>(reader.integer(1, 10), 2, 36));
    if (const auto value = parse_integer(input.bytes(), base)) return Value(*value);
    const auto value = parse_float(input.bytes());
    if (!value || !std::isfinite(*value) || std::fabs(*value) >= 9e18) return absent;
    return Value(static_cast<int64_t>(*value));
  }
  if (input.is_float()) {
    if (!std::isfinite(input.as_float()) || std::fabs(input.as_float()) >= 9e18) return absent;
    return Value(static_cast<int64_t>(input.as_float()));
  }
  return input.is_number() ? Value(input.as_int()) : absent;
}

Value filter_float(Interpreter&, const Value& input, const CallArgs& args) {
  const ArgReader reader("float", args, {"default"});
  if (input.is_number()) return Value(input.as_float());
  if (input.is_text())
    if (const auto value = parse_float(input.bytes())) return Value(*value);
  return reader.get(0) == nullptr ? Value(0.0) : *reader.get(0);
}

Value filter_abs(Interpreter&, const Value& input, const CallArgs&) {
  if (input.is_float()) return Value(std::fabs(input.as_float()));
  if (!input.is_number())
    throw TemplateError{fmt::format("bad operand type for abs(): '{}'", input.type_name())};
  if (input.as_int() == INT64_MIN) throw TemplateError{"integer overflow"};
  return Value(std::abs(input.as_int()));
}

Value filter_round(Interpreter&, const Value& input, const CallArgs& args) {
  const ArgReader reader("round", args, {"precision", "method"});
  const std::string method = reader.get(1) == nullptr ? "common" : reader.text(1).bytes;
  if (method != "common" && method != "ceil" && method != "floor")
    throw TemplateError{"method must be common, ceil or floor"};
  if (!input.is_number())
    throw TemplateError{fmt::format("type {} has no rounding", input.type_name())};
  const int64_t digits = std::clamp<int64_t>(reader.integer(0, 0), -300, 300);
  if (method == "common" && !input.is_float() && digits >= 0) return Value(input.as_int());
  const double value = input.as_float();
  if (method == "common" && digits >= 0) {
    // Rounding the exact decimal value, halves to even, is what printf does.
    const std::string text = fmt::format("{:.{}f}", value, static_cast<int>(digits));
    double rounded = value;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return Value(rounded);
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value * scale;
  const double whole = method == "common" ? std::nearbyint(scaled)
                       : method == "ceil" ? std::ceil(scaled)
                                          : std::floor(scaled);
  if (method == "common" && !input.is_float()) return Value(static_cast<int64_t>(whole / scale));
  return Value(whole / scale);
}

}  // namespace hs::jinja
