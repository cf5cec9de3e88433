// What follows a primary expression (attributes, subscripts, calls, filters, tests), and the lists
// of names that statements share with it: targets, arguments, parameters.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/jinja_expr_parser.h"
#include "text/jinja_parser.h"

namespace hs::jinja {

Target ExprParser::target(bool with_namespace) {
  const Nesting nesting(*this);
  const auto one = [&] {
    Target part;
    if (accept_operator("(")) {
      part = target(false);
      expect_operator(")");
      return part;
    }
    const Token token = current();
    part.name = expect_name();
    for (const char* reserved : {"true", "false", "none", "True", "False", "None"})
      if (part.name == reserved)
        throw TemplateError{fmt::format("can't assign to '{}'", part.name), token.line};
    if (with_namespace && accept_operator(".")) {
      part.kind = Target::Kind::kNamespaceField;
      part.field = expect_name();
    }
    return part;
  };
  Target first = one();
  if (!current().is_operator(",")) return first;
  Target tuple;
  tuple.kind = Target::Kind::kTuple;
  tuple.parts.push_back(std::move(first));
  while (accept_operator(",")) {
    if (at_expression_end()) break;
    tuple.parts.push_back(one());
  }
  return tuple;
}

void ExprParser::arguments(Expr& call) {
  const Nesting nesting(*this);
  expect_operator("(");
  bool first = true;
  while (!current().is_operator(")")) {
    if (!first) expect_operator(",");
    if (!first && current().is_operator(")")) break;
    first = false;
    if (current().is_operator("*") || current().is_operator("**"))
      fail_here("unpacking of arguments (*, **) is not supported");
    if (current().kind == Token::Kind::kName && ahead().is_operator("=")) {
      std::string name = take().text;
      expect_operator("=");
      call.named.emplace_back(std::move(name), expression());
    } else {
      if (!call.named.empty()) fail_here("a positional argument follows a named one");
      call.items.push_back(expression());
    }
  }
  expect_operator(")");
}

void ExprParser::parameters(Macro& macro) {
  expect_operator("(");
  while (!current().is_operator(")")) {
    if (!macro.parameters.empty()) expect_operator(",");
    macro.parameters.push_back(expect_name());
    if (accept_operator("=")) {
      macro.defaults.push_back(expression());
    } else if (!macro.defaults.empty()) {
      fail_here("a parameter without default follows one with a default");
    }
  }
  expect_operator(")");
}

ExprPtr ExprParser::postfix(ExprPtr expr) {
  while (true) {
    if (accept_operator(".")) {
      const Token token = take();
      const bool is_index = token.kind == Token::Kind::kInteger;
      if (token.kind != Token::Kind::kName && !is_index)
        throw TemplateError{"expected a name or a number after '.'", token.line};
      ExprPtr access = make(is_index ? Expr::Kind::kSubscript : Expr::Kind::kAttribute, token.line);
      access->items.push_back(std::move(expr));
      access->name = token.text;
      if (is_index) {
        --pos_;
        access->items.push_back(number());
      }
      expr = finished(std::move(access));
    } else if (current().is_operator("[")) {
      expr = subscript(std::move(expr));
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

ExprPtr ExprParser::subscript(ExprPtr object) {
  const Nesting nesting(*this);
  const int line = current().line;
  expect_operator("[");
  ExprPtr first;
  if (!current().is_operator(":")) first = expression();
  if (!current().is_operator(":")) {
    expect_operator("]");
    ExprPtr access = make(Expr::Kind::kSubscript, line);
    access->items.push_back(std::move(object));
    access->items.push_back(std::move(first));
    return finished(std::move(access));
  }
  ExprPtr slice = make(Expr::Kind::kSlice, line);
  slice->items.push_back(std::move(object));
  slice->items.push_back(std::move(first));
  for (int part = 0; part < 2; ++part) {
    const bool given =
        accept_operator(":") && !current().is_operator(":") && !current().is_operator("]");
    slice->items.push_back(given ? expression() : nullptr);
  }
  expect_operator("]");
  return finished(std::move(slice));
}

ExprPtr ExprParser::filters(ExprPtr expr, bool first) {
  while (first || current().is_operator("|")) {
    if (!first) expect_operator("|");
    first = false;
    ExprPtr filter = make(Expr::Kind::kFilter, current().line);
    filter->name = expect_name();
    while (accept_operator(".")) filter->name += "." + expect_name();
    filter->filter = find_filter(filter->name);
    if (filter->filter == nullptr)
      throw TemplateError{fmt::format("No filter named '{}'.", filter->name), filter->line};
    filter->items.push_back(std::move(expr));
    if (current().is_operator("(")) arguments(*filter);
    expr = finished(std::move(filter));
  }
  return expr;
}

ExprPtr ExprParser::test(ExprPtr expr) {
  ExprPtr result = make(Expr::Kind::kTest, take().line);
  const bool negated = accept_name("not");
  result->name = expect_name();
  while (accept_operator(".")) result->name += "." + expect_name();
  result->test = find_test(result->name);
  if (result->test == nullptr)
    throw TemplateError{fmt::format("No test named '{}'.", result->name), result->line};
  result->items.push_back(std::move(expr));
  const Token& token = current();
  const bool argument_follows =
      token.kind == Token::Kind::kString || token.kind == Token::Kind::kInteger ||
      token.kind == Token::Kind::kFloat || token.is_operator("[") || token.is_operator("{") ||
      (token.kind == Token::Kind::kName && token.text != "else" && token.text != "or" &&
       token.text != "and");
  if (token.is_operator("(")) {
    arguments(*result);
  } else if (argument_follows) {
    if (token.is_name("is")) fail_here("You cannot chain multiple tests with is");
    // A condition or a loop filter may follow a test directly.
    if (!token.is_name("if") && !token.is_name("in") && !token.is_name("not") &&
        !token.is_name("recursive"))
      result->items.push_back(postfix(primary()));
  }
  result = finished(std::move(result));
  if (!negated) return result;
  ExprPtr inverse = make(Expr::Kind::kUnary, result->line);
  inverse->name = "not";
  inverse->items.push_back(std::move(result));
  return finished(std::move(inverse));
}

}  // namespace hs::jinja
