// Values to text: Python's str, repr and json.dumps.
#pragma once

#include <optional>
#include <string>

#include "text/jinja_value.h"

namespace hs::jinja {

std::string float_repr(double value);
void append_str(Text& out, const Value& value);
void append_repr(Text& out, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // one level of it
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// Throws TemplateError for what JSON cannot hold.
void append_json(Text& out, const Value& value, const JsonStyle& style, int level = 0);

}  // namespace hs::jinja
