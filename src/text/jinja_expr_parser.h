// The expressions of a template; the statements are in jinja_parser.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace hs::jinja {

// Reads expressions from a token list. Throws TemplateError.
class ExprParser {
 public:
  explicit ExprParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  ExprPtr expression(bool with_condition = true);
  // `a, b` is a tuple, `a` alone is itself.
  ExprPtr tuple_or_expression(bool with_condition = true);
  Target target(bool with_namespace);
  // The parenthesised arguments of a call, appended to the items and names of `call`. REQUIRES:
  // current is "(".
  void arguments(Expr& call);
  ExprPtr postfix(ExprPtr expr);
  // `| name(...)` once and more; with `first`, the bar before the first filter is left out.
  ExprPtr filters(ExprPtr expr, bool first);
  // Parameters of a macro or caller. REQUIRES: current is "(".
  void parameters(Macro& macro);

  const Token& current() const { return tokens_[pos_]; }
  const Token& ahead() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
  Token take();
  bool accept_operator(std::string_view op);
  bool accept_name(std::string_view name);
  void expect_operator(std::string_view op);
  std::string expect_name();
  void expect(Token::Kind kind, std::string_view what);
  [[noreturn]] void fail_here(std::string message) const;

  // Names used so far (for macros that look at varargs, kwargs or caller).
  std::vector<std::string>& names_used() { return names_used_; }

 private:
  // Brackets and prefix operators within each other.
  static constexpr int kNestingMax = 300;
  // Counts how deep the parser is inside itself.
  struct Nesting {
    explicit Nesting(ExprParser& p) : parser(p) {
      if (++parser.nesting_ > kNestingMax) parser.fail_here("the expression is nested too deeply");
    }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    ~Nesting() { --parser.nesting_; }
    ExprParser& parser;
  };
  ExprPtr make(Expr::Kind kind, int line) const;
  ExprPtr finished(ExprPtr expr) const;  // sets depth, checks it
  ExprPtr or_expression();
  ExprPtr and_expression();
  ExprPtr not_expression();
  ExprPtr compare();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter);
  ExprPtr primary();
  ExprPtr number();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr parenthesised();
  ExprPtr subscript(ExprPtr object);
  ExprPtr test(ExprPtr expr);
  ExprPtr binary(std::string op, ExprPtr left, ExprPtr right) const;
  bool at_expression_end() const;

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int nesting_ = 0;
  std::vector<std::string> names_used_;
};

}  // namespace hs::jinja
