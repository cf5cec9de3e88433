#include "text/jinja_expr_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "text/jinja_parser.h"

namespace hs::jinja {
namespace {

constexpr int kTreeDepthMax = 250;

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kEnd:
      return "end of template";
    case Token::Kind::kBlockEnd:
      return "end of statement block";
    case Token::Kind::kVariableEnd:
      return "end of print statement";
    case Token::Kind::kData:
      return "template data";
    default:
      return fmt::format("'{}'", token.text);
  }
}

}  // namespace

void ExprParser::fail_here(std::string message) const {
  throw TemplateError{std::move(message), current().line};
}

Token ExprParser::take() {
  Token token = tokens_[pos_];
  if (token.kind != Token::Kind::kEnd) ++pos_;
  return token;
}

bool ExprParser::accept_operator(std::string_view op) {
  if (!current().is_operator(op)) return false;
  ++pos_;
  return true;
}

bool ExprParser::accept_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  ++pos_;
  return true;
}

void ExprParser::expect_operator(std::string_view op) {
  if (!accept_operator(op))
    fail_here(fmt::format("expected '{}', got {}", op, describe(current())));
}

std::string ExprParser::expect_name() {
  if (current().kind != Token::Kind::kName)
    fail_here(fmt::format("expected a name, got {}", describe(current())));
  return take().text;
}

void ExprParser::expect(Token::Kind kind, std::string_view what) {
  if (current().kind != kind)
    fail_here(fmt::format("expected {}, got {}", what, describe(current())));
  ++pos_;
}

ExprPtr ExprParser::make(Expr::Kind kind, int line) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

ExprPtr ExprParser::finished(ExprPtr expr) const {
  int depth = 0;
  for (const ExprPtr& item : expr->items)
    if (item != nullptr) depth = std::max(depth, item->depth);
  for (const auto& [name, item] : expr->named) depth = std::max(depth, item->depth);
  expr->depth = depth + 1;
  if (expr->depth > kTreeDepthMax)
    throw TemplateError{"the expression is too long or nested too deeply", expr->line};
  return expr;
}

ExprPtr ExprParser::binary(std::string op, ExprPtr left, ExprPtr right) const {
  ExprPtr expr = make(Expr::Kind::kBinary, left->line);
  expr->name = std::move(op);
  expr->items.push_back(std::move(left));
  expr->items.push_back(std::move(right));
  return finished(std::move(expr));
}

ExprPtr ExprParser::expression(bool with_condition) {
  const Nesting nesting(*this);
  ExprPtr value = or_expression();
  while (with_condition && accept_name("if")) {
    ExprPtr conditional = make(Expr::Kind::kConditional, value->line);
    conditional->items.push_back(std::move(value));
    conditional->items.push_back(or_expression());
    conditional->items.push_back(accept_name("else") ? expression() : nullptr);
    value = finished(std::move(conditional));
  }
  return value;
}

ExprPtr ExprParser::or_expression() {
  ExprPtr left = and_expression();
  while (accept_name("or")) left = binary("or", std::move(left), and_expression());
  return left;
}

ExprPtr ExprParser::and_expression() {
  ExprPtr left = not_expression();
  while (accept_name("and")) left = binary("and", std::move(left), not_expression());
  return left;
}

ExprPtr ExprParser::not_expression() {
  if (!current().is_name("not")) return compare();
  const Nesting nesting(*this);
  ExprPtr expr = make(Expr::Kind::kUnary, take().line);
  expr->name = "not";
  expr->items.push_back(not_expression());
  return finished(std::move(expr));
}

ExprPtr ExprParser::compare() {
  ExprPtr first = sum();
  ExprPtr result;
  while (true) {
    std::string op;
    const Token& token = current();
    const bool is_comparison = token.kind == Token::Kind::kOperator &&
                               (token.text == "==" || token.text == "!=" || token.text == "<" ||
                                token.text == "<=" || token.text == ">" || token.text == ">=");
    if (is_comparison) {
      op = take().text;
    } else if (accept_name("in")) {
      op = "in";
    } else if (token.is_name("not") && ahead().is_name("in")) {
      pos_ += 2;
      op = "not in";
    } else {
      break;
    }
    if (result == nullptr) {
      result = make(Expr::Kind::kCompare, first->line);
      result->items.push_back(std::move(first));
    }
    result->operators.push_back(std::move(op));
    result->items.push_back(sum());
  }
  return result == nullptr ? std::move(first) : finished(std::move(result));
}

ExprPtr ExprParser::sum() {
  ExprPtr left = concat();
  while (current().is_operator("+") || current().is_operator("-")) {
    std::string op = take().text;
    left = binary(std::move(op), std::move(left), concat());
  }
  return left;
}

ExprPtr ExprParser::concat() {
  ExprPtr left = product();
  while (accept_operator("~")) left = binary("~", std::move(left), product());
  return left;
}

ExprPtr ExprParser::product() {
  ExprPtr left = power();
  while (current().is_operator("*") || current().is_operator("/") || current().is_operator("//") ||
         current().is_operator("%")) {
    std::string op = take().text;
    left = binary(std::move(op), std::move(left), power());
  }
  return left;
}

ExprPtr ExprParser::power() {
  ExprPtr left = unary(true);
  while (accept_operator("**")) left = binary("**", std::move(left), unary(true));
  return left;
}

ExprPtr ExprParser::unary(bool with_filter) {
  ExprPtr expr;
  if (current().is_operator("-") || current().is_operator("+")) {
    const Nesting nesting(*this);
    Token sign = take();
    expr = make(Expr::Kind::kUnary, sign.line);
    expr->name = std::move(sign.text);
    expr->items.push_back(unary(false));
    expr = finished(std::move(expr));
  } else {
    expr = primary();
  }
  expr = postfix(std::move(expr));
  if (!with_filter) return expr;
  while (true) {
    if (current().is_operator("|")) {
      expr = filters(std::move(expr), false);
    } else if (current().is_name("is")) {
      expr = test(std::move(expr));
    } else if (current().is_operator("(")) {
      ExprPtr call = make(Expr::Kind::kCall, expr->line);
      call->items.push_back(std::move(expr));
      arguments(*call);
      expr = finished(std::move(call));
    } else {
      return expr;
    }
  }
}

ExprPtr ExprParser::primary() {
  const Nesting nesting(*this);
  const Token& token = current();
  const int line = token.line;
  if (token.kind == Token::Kind::kName) {
    const std::string name = take().text;
    ExprPtr expr = make(Expr::Kind::kConstant, line);
    if (name == "true" || name == "True") {
      expr->constant = Value(true);
    } else if (name == "false" || name == "False") {
      expr->constant = Value(false);
    } else if (name == "none" || name == "None") {
      expr->constant = Value(None{});
    } else {
      expr->kind = Expr::Kind::kName;
      expr->name = name;
      names_used_.push_back(name);
    }
    return expr;
  }
  if (token.kind == Token::Kind::kString) {
    std::string text;
    while (current().kind == Token::Kind::kString) text += take().text;
    ExprPtr expr = make(Expr::Kind::kConstant, line);
    expr->constant = Value::text(text);
    return expr;
  }
  if (token.kind == Token::Kind::kInteger || token.kind == Token::Kind::kFloat) return number();
  if (token.is_operator("(")) return parenthesised();
  if (token.is_operator("[")) return list();
  if (token.is_operator("{")) return dict();
  fail_here(fmt::format("unexpected {}", describe(token)));
}

ExprPtr ExprParser::number() {
  const Token token = take();
  ExprPtr expr = make(Expr::Kind::kConstant, token.line);
  if (token.kind == Token::Kind::kFloat) {
    double value = 0;
    const auto result =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (result.ec != std::errc() && result.ec != std::errc::result_out_of_range)
      throw TemplateError{fmt::format("'{}' is not a number", token.text), token.line};
    expr->constant = Value(value);
    return expr;
  }
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && digits[1] > '9') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size())
    throw TemplateError{fmt::format("'{}' is not an integer of 64 bits", token.text), token.line};
  expr->constant = Value(value);
  return expr;
}

ExprPtr ExprParser::list() {
  ExprPtr expr = make(Expr::Kind::kList, current().line);
  expect_operator("[");
  while (!current().is_operator("]")) {
    if (!expr->items.empty()) expect_operator(",");
    if (current().is_operator("]")) break;
    expr->items.push_back(expression());
  }
  expect_operator("]");
  return finished(std::move(expr));
}

ExprPtr ExprParser::dict() {
  ExprPtr expr = make(Expr::Kind::kDict, current().line);
  expect_operator("{");
  while (!current().is_operator("}")) {
    if (!expr->items.empty()) expect_operator(",");
    if (current().is_operator("}")) break;
    expr->items.push_back(expression());
    expect_operator(":");
    expr->items.push_back(expression());
  }
  expect_operator("}");
  return finished(std::move(expr));
}

ExprPtr ExprParser::parenthesised() {
  const int line = current().line;
  expect_operator("(");
  if (accept_operator(")")) return make(Expr::Kind::kTuple, line);
  ExprPtr expr = tuple_or_expression();
  expect_operator(")");
  return expr;
}

bool ExprParser::at_expression_end() const {
  const Token& token = current();
  return token.kind == Token::Kind::kBlockEnd || token.kind == Token::Kind::kVariableEnd ||
         token.is_operator(")") || token.is_operator("=") || token.is_name("in") ||
         token.is_name("recursive") || token.is_name("if");
}

ExprPtr ExprParser::tuple_or_expression(bool with_condition) {
  ExprPtr first = expression(with_condition);
  if (!current().is_operator(",")) return first;
  ExprPtr tuple = make(Expr::Kind::kTuple, first->line);
  tuple->items.push_back(std::move(first));
  while (accept_operator(",")) {
    if (at_expression_end()) break;
    tuple->items.push_back(expression(with_condition));
  }
  return finished(std::move(tuple));
}

}  // namespace hs::jinja
