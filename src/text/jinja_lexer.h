// Template source to tokens, with the white space rules of Jinja2 under trim_blocks and
// lstrip_blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hs::jinja {

struct Token {
  enum class Kind {
    kData,           // text between tags
    kBlockBegin,     // {%
    kBlockEnd,       // %}
    kVariableBegin,  // {{
    kVariableEnd,    // }}
    kName,
    kString,  // text: unescaped
    kInteger,
    kFloat,
    kOperator,  // text: the operator
    kEnd,
  } kind = Kind::kEnd;
  std::string text;
  int line = 1;

  bool is_operator(std::string_view op) const { return kind == Kind::kOperator && text == op; }
  bool is_name(std::string_view name) const { return kind == Kind::kName && text == name; }
};

// Throws TemplateError. REQUIRES: source is valid UTF-8. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

}  // namespace hs::jinja
