// The interpreter's expressions: names, literals, operators, calls; the statements are in
// jinja_interpreter.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/jinja_format.h"
#include "text/jinja_interpreter.h"
#include "text/unicode.h"

namespace hs::jinja {

Value Interpreter::eval(const Expr& expr) {
  const DepthGuard guard(*this);
  charge(1);
  try {
    return eval_node(expr);
  } catch (TemplateError& error) {
    if (error.line == 0) error.line = expr.line;
    throw;
  }
}

Value Interpreter::eval_node(const Expr& expr) {
  const auto item = [&](size_t i) -> const Expr& { return *expr.items[i]; };
  switch (expr.kind) {
    case Expr::Kind::kConstant:
      return expr.constant;
    case Expr::Kind::kName:
      return eval_name(expr.name);
    case Expr::Kind::kList:
    case Expr::Kind::kTuple: {
      std::vector<Value> items;
      for (const ExprPtr& element : expr.items) items.push_back(eval(*element));
      return make_list(std::move(items), expr.kind == Expr::Kind::kTuple);
    }
    case Expr::Kind::kDict:
      return eval_dict(expr);
    case Expr::Kind::kAttribute:
      return attribute(eval(item(0)), expr.name);
    case Expr::Kind::kSubscript: {
      const Value object = eval(item(0));
      return subscript(object, eval(item(1)));
    }
    case Expr::Kind::kSlice:
      return eval_slice(expr);
    case Expr::Kind::kCall: {
      const Value callee = eval(item(0));
      return call(callee, eval_args(expr));
    }
    case Expr::Kind::kFilter: {
      const Value input = eval(item(0));
      return expr.filter(*this, input, eval_args(expr));
    }
    case Expr::Kind::kTest: {
      const Value input = eval(item(0));
      return Value(expr.test(*this, input, eval_args(expr)));
    }
    case Expr::Kind::kUnary:
      return eval_unary(expr);
    case Expr::Kind::kBinary:
      return eval_binary(expr);
    case Expr::Kind::kCompare:
      return eval_compare(expr);
    case Expr::Kind::kConditional:
      if (eval(item(1)).truthy()) return eval(item(0));
      return expr.items[2] == nullptr ? Value() : eval(item(2));
  }
  return Value();
}

Value Interpreter::eval_name(const std::string& name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    charge(1);
    const auto it = scope->variables.find(name);
    if (it != scope->variables.end()) return it->second;
  }
  if (auto global = find_global(name)) return Value(std::move(global));
  return Value::undefined(name);
}

Value Interpreter::eval_dict(const Expr& expr) {
  std::vector<std::pair<Value, Value>> items;
  for (size_t i = 0; i < expr.items.size(); i += 2) {
    Value key = eval(*expr.items[i]);
    if (key.is_dict() || (key.is_list() && !key.is_tuple()))
      throw TemplateError{fmt::format("unhashable type: '{}'", key.type_name())};
    Value value = eval(*expr.items[i + 1]);
    const auto it =
        std::ranges::find_if(items, [&](const auto& item) { return equal(item.first, key); });
    charge(items.size());
    if (it != items.end()) {
      it->second = std::move(value);
    } else {
      items.emplace_back(std::move(key), std::move(value));
    }
  }
  return make_dict(std::move(items));
}

Value Interpreter::eval_slice(const Expr& expr) {
  const Value object = eval(*expr.items[0]);
  std::vector<Value> bounds;
  for (size_t i = 1; i < 4; ++i)
    bounds.push_back(expr.items[i] == nullptr ? Value(None{}) : eval(*expr.items[i]));
  if (object.is_undefined())
    throw TemplateError{fmt::format("'{}' is undefined", object.undefined_name())};
  if (object.is_list()) {
    std::vector<Value> items;
    for (const size_t i : slice_indices(&bounds[0], &bounds[1], &bounds[2], object.items().size()))
      items.push_back(object.items()[i]);
    return make_list(std::move(items), object.is_tuple());
  }
  if (!object.is_text()) return Value::undefined("slice");
  const Text& text = object.as_text();
  std::vector<size_t> starts;  // of characters
  for (size_t pos = 0; pos < text.bytes.size(); pos += utf8_length(text.bytes, pos))
    starts.push_back(pos);
  charge(starts.size());
  const auto indices = slice_indices(&bounds[0], &bounds[1], &bounds[2], starts.size());
  starts.push_back(text.bytes.size());
  Text out;
  const bool whole = !indices.empty() && indices.back() - indices.front() + 1 == indices.size();
  if (whole && indices.back() >= indices.front()) {
    out = text.slice(starts[indices.front()], starts[indices.back() + 1]);
  } else {
    for (const size_t i : indices)
      out.append(std::string_view(text.bytes).substr(starts[i], starts[i + 1] - starts[i]),
                 text.literal_at(starts[i]));
  }
  return make_text(std::move(out));
}

Value Interpreter::eval_unary(const Expr& expr) {
  const Value value = eval(*expr.items[0]);
  if (expr.name == "not") return Value(!value.truthy());
  if (value.is_undefined())
    throw TemplateError{fmt::format("'{}' is undefined", value.undefined_name())};
  if (!value.is_number())
    throw TemplateError{
        fmt::format("bad operand type for unary {}: '{}'", expr.name, value.type_name())};
  if (value.is_float()) return Value(expr.name == "-" ? -value.as_float() : value.as_float());
  if (expr.name == "-" && value.as_int() == INT64_MIN) throw TemplateError{"integer overflow"};
  return Value(expr.name == "-" ? -value.as_int() : value.as_int());
}

Value Interpreter::eval_binary(const Expr& expr) {
  Value left = eval(*expr.items[0]);
  if (expr.name == "and") return left.truthy() ? eval(*expr.items[1]) : left;
  if (expr.name == "or") return left.truthy() ? left : eval(*expr.items[1]);
  const Value right = eval(*expr.items[1]);
  return binary(expr.name, left, right);
}

Value Interpreter::eval_compare(const Expr& expr) {
  Value left = eval(*expr.items[0]);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = eval(*expr.items[i + 1]);
    if (!compare(expr.operators[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

bool Interpreter::compare(const std::string& op, const Value& left, const Value& right) {
  charge(std::min(left.weight(), right.weight()));
  if (op == "==") return equal(left, right);
  if (op == "!=") return !equal(left, right);
  if (op == "in") return contains(right, left);
  if (op == "not in") return !contains(right, left);
  if (op == "<") return less(left, right);
  if (op == ">") return less(right, left);
  const bool is_less = op == "<=" ? less(left, right) : less(right, left);
  return is_less || equal(left, right);
}

CallArgs Interpreter::eval_args(const Expr& expr) {
  CallArgs args;
  for (size_t i = 1; i < expr.items.size(); ++i) args.positional.push_back(eval(*expr.items[i]));
  for (const auto& [name, value] : expr.named) args.named.emplace_back(name, eval(*value));
  return args;
}

// A chain of filters whose innermost input is missing (filter and set blocks).
Value Interpreter::apply_filters(const Expr& expr, const Value& input) {
  const Value inner = expr.items[0] == nullptr ? input : apply_filters(*expr.items[0], input);
  return expr.filter(*this, inner, eval_args(expr));
}

Value Interpreter::call(const Value& callee, const CallArgs& args) {
  if (callee.is_undefined())
    throw TemplateError{fmt::format("'{}' is undefined", callee.undefined_name())};
  if (!callee.is_callable())
    throw TemplateError{fmt::format("'{}' object is not callable", callee.type_name())};
  const DepthGuard guard(*this);
  return callee.as_callable().call(*this, args);
}

Value Interpreter::call_macro(const Macro& macro, const std::shared_ptr<Scope>& scope,
                              const CallArgs& args) {
  const auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  struct Restore {
    std::shared_ptr<Scope>& current;
    std::shared_ptr<Scope> value;
    ~Restore() { current = std::move(value); }
  } restore{scope_, std::exchange(scope_, inner)};

  const size_t count = macro.parameters.size();
  std::vector<const Value*> given(count, nullptr);
  std::vector<Value> extra;
  for (size_t i = 0; i < args.positional.size(); ++i) {
    if (i < count)
      given[i] = &args.positional[i];
    else
      extra.push_back(args.positional[i]);
  }
  std::vector<std::pair<Value, Value>> extra_named;
  Value caller = Value::undefined("No caller defined");
  for (const auto& [name, value] : args.named) {
    const auto it = std::ranges::find(macro.parameters, name);
    if (it != macro.parameters.end()) {
      const Value*& slot = given[static_cast<size_t>(it - macro.parameters.begin())];
      if (slot != nullptr)
        throw TemplateError{
            fmt::format("macro '{}' got the argument '{}' twice", macro.name, name)};
      slot = &value;
    } else if (name == "caller" && macro.uses_caller) {
      caller = value;
    } else {
      extra_named.emplace_back(Value::text(name), value);
    }
  }
  if (!extra.empty() && !macro.uses_varargs)
    throw TemplateError{
        fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, count)};
  if (!extra_named.empty() && !macro.uses_kwargs)
    throw TemplateError{fmt::format("macro '{}' takes no keyword argument '{}'", macro.name,
                                    extra_named[0].first.bytes())};
  const size_t first_default = count - macro.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    Value value = given[i] != nullptr  ? *given[i]
                  : i >= first_default ? eval(*macro.defaults[i - first_default])
                                       : Value::undefined(macro.parameters[i]);
    set(macro.parameters[i], std::move(value));
  }
  if (macro.uses_varargs) set("varargs", make_list(std::move(extra), true));
  if (macro.uses_kwargs) set("kwargs", make_dict(std::move(extra_named)));
  if (macro.uses_caller) set("caller", std::move(caller));
  return make_text(capture(macro.body));
}

Text Interpreter::to_text(const Value& value) {
  charge(value.weight());
  Text text;
  append_str(text, value);
  return text;
}

}  // namespace hs::jinja
