// Answers that may call functions: a text, then calls, each a JSON object with the function's name
// and arguments that satisfy its schema, in whatever wrapper the family of the model writes.
//
// A control token stands in the vocabulary as kControlByte and its content (token_trie.h's bytes),
// and no other token has that byte: so only a grammar that names the token allows it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/expression.h"
#include "grammar/language.h"

namespace hs {

constexpr char kControlByte = '\xFF';

struct ToolGrammar {
  // kNever: only text, in which no call begins.
  enum class Calls { kNever, kMaybe, kAlways };
  struct Function {
    std::string name;        // needs no escape in JSON
    std::string parameters;  // JSON Schema; the arguments are an object that satisfies it
    bool strict = false;     // else the arguments are any object where the schema has a keyword
                             // that is not taken
    std::string param;       // the schema's place in the request, for complaints
  };
  struct Form {  // of a text without calls
    Language language = Language::kJsonObject;
    std::string text;
    std::string param;
  };

  Calls calls = Calls::kMaybe;
  std::string opening;      // of a call; "": its JSON begins it
  std::string closing;      // of a call
  std::string control;      // a control token that may come before the first call; "": none
  std::string arguments;    // the key of the arguments
  bool only_first = false;  // a call can only begin the answer
  bool many = true;         // calls may follow each other
  std::optional<Form> form;
  std::vector<Function> functions;

  // As parse_tool_grammar takes it.
  std::string to_text() const;
};

// Errors: those of the schemas and of the form, at their `param`.
Result<Expr> parse_tool_grammar(ExpressionPool& pool, std::string_view text);

// Texts that never complete a string of `opening`, and, unless `after` is kNoText, those that go on
// with `after` where they first complete one. Control tokens are no part of a text, but of
// `opening`. REQUIRES: `opening` has not the empty string, and derivatives of it may be asked for.
Expr text_up_to(ExpressionPool& pool, Expr opening, Expr after);

}  // namespace hs
