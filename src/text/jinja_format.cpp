#include "text/jinja_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "text/unicode.h"

namespace hs::jinja {
namespace {

// Whether Python's repr writes the character as it is.
bool is_printable(char32_t c) {
  if (c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD) return false;
  if (is_whitespace(c)) return c == ' ';
  return is_assigned_and_visible(c);
}

std::string escaped_code(char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (code < 0x100) return fmt::format("\\x{:02x}", code);
  return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

void append_text_repr(Text& out, const Text& text) {
  const bool has_single = text.bytes.find('\'') != std::string::npos;
  const char quote = has_single && text.bytes.find('"') == std::string::npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  for (size_t pos = 0; pos < text.bytes.size();) {
    const size_t begin = pos;
    const char32_t c = next_char(text.bytes, pos);
    const bool literal = text.literal_at(begin);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.append("\\", literal);
      out.append(std::string_view(text.bytes).substr(begin, 1), literal);
    } else if (is_printable(c)) {
      out.append(std::string_view(text.bytes).substr(begin, pos - begin), literal);
    } else {
      out.append(escaped_code(c), literal);
    }
  }
  out.append(std::string_view(&quote, 1));
}

void append_list_repr(Text& out, const Value& value) {
  out.append(value.is_tuple() ? "(" : "[");
  bool first = true;
  for (const Value& item : value.items()) {
    if (!std::exchange(first, false)) out.append(", ");
    append_repr(out, item);
  }
  if (value.is_tuple() && value.items().size() == 1) out.append(",");
  out.append(value.is_tuple() ? ")" : "]");
}

void append_dict_repr(Text& out, const Dict& dict) {
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : dict.items) {
    if (!std::exchange(first, false)) out.append(", ");
    append_repr(out, key);
    out.append(": ");
    append_repr(out, value);
  }
  out.append("}");
}

void append_json_text(Text& out, const Text& text, bool ensure_ascii) {
  out.append("\"");
  for (size_t pos = 0; pos < text.bytes.size();) {
    const size_t begin = pos;
    const char32_t c = next_char(text.bytes, pos);
    const bool literal = text.literal_at(begin);
    const auto code = static_cast<uint32_t>(c);
    if (c == '"' || c == '\\') {
      out.append("\\", literal);
      out.append(std::string_view(text.bytes).substr(begin, 1), literal);
    } else if (c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f') {
      const char letter = c == '\n'   ? 'n'
                          : c == '\r' ? 'r'
                          : c == '\t' ? 't'
                          : c == '\b' ? 'b'
                                      : 'f';
      out.append(std::string{'\\', letter}, literal);
    } else if (code < 0x20 || (ensure_ascii && code >= 0x7F && code < 0x10000 && code != 0x7F)) {
      out.append(fmt::format("\\u{:04x}", code), literal);
    } else if (ensure_ascii && code >= 0x10000) {
      const uint32_t rest = code - 0x10000;
      out.append(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF)),
                 literal);
    } else {
      out.append(std::string_view(text.bytes).substr(begin, pos - begin), literal);
    }
  }
  out.append("\"");
}

std::string json_number(const Value& value) {
  if (value.is_bool()) return value.as_bool() ? "true" : "false";
  if (value.is_int()) return std::to_string(value.as_int());
  const double number = value.as_float();
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return float_repr(number);
}

void append_json_key(Text& out, const Value& key, bool ensure_ascii) {
  if (key.is_text()) return append_json_text(out, key.as_text(), ensure_ascii);
  if (key.is_none()) return out.append("\"null\"");
  if (!key.is_number())
    throw TemplateError{
        fmt::format("keys must be str, int, float, bool or None, not {}", key.type_name())};
  out.append("\"" + json_number(key) + "\"");
}

// Writes the elements of an array or object, each by `item(i)`.
template <typename Item>
void append_json_items(Text& out, size_t count, const JsonStyle& style, int level,
                       const Item& item) {
  const auto line = [&](int depth) {
    if (!style.indent) return;
    out.append("\n");
    for (int i = 0; i < depth; ++i) out.append(*style.indent);
  };
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out.append(style.item_separator);
    line(level + 1);
    item(i);
  }
  if (count > 0) line(level);
}

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // Shortest digits that give the value back; Python writes an exponent below 1e-4 and from 1e16
  // on.
  const double magnitude = std::fabs(value);
  const bool scientific = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  char buffer[512];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, value,
                    scientific ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer, result.ptr);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

void append_str(Text& out, const Value& value) {
  if (value.is_text()) {
    out.append(value.as_text());
  } else if (!value.is_undefined()) {
    append_repr(out, value);
  }
}

void append_repr(Text& out, const Value& value) {
  if (value.is_text()) return append_text_repr(out, value.as_text());
  if (value.is_list()) return append_list_repr(out, value);
  if (value.is_dict()) return append_dict_repr(out, value.as_dict());
  if (value.is_undefined()) return out.append("Undefined");
  if (value.is_none()) return out.append("None");
  if (value.is_bool()) return out.append(value.as_bool() ? "True" : "False");
  if (value.is_int()) return out.append(std::to_string(value.as_int()));
  if (value.is_float()) return out.append(float_repr(value.as_float()));
  out.append(fmt::format("<{}>", value.type_name()));
}

void append_json(Text& out, const Value& value, const JsonStyle& style, int level) {
  if (value.is_text()) {
    append_json_text(out, value.as_text(), style.ensure_ascii);
  } else if (value.is_none()) {
    out.append("null");
  } else if (value.is_number()) {
    out.append(json_number(value));
  } else if (value.is_list()) {
    out.append("[");
    append_json_items(out, value.items().size(), style, level,
                      [&](size_t i) { append_json(out, value.items()[i], style, level + 1); });
    out.append("]");
  } else if (value.is_dict()) {
    auto items = value.as_dict().items;
    if (style.sort_keys)
      std::ranges::stable_sort(items,
                               [](const auto& a, const auto& b) { return less(a.first, b.first); });
    out.append("{");
    append_json_items(out, items.size(), style, level, [&](size_t i) {
      append_json_key(out, items[i].first, style.ensure_ascii);
      out.append(style.key_separator);
      append_json(out, items[i].second, style, level + 1);
    });
    out.append("}");
  } else {
    throw TemplateError{
        fmt::format("Object of type {} is not JSON serializable", value.type_name())};
  }
}

}  // namespace hs::jinja
