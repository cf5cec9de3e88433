#include "text/jinja_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/jinja_format.h"
#include "text/unicode.h"

namespace hs::jinja {
namespace {

class MacroValue final : public Callable {
 public:
  MacroValue(const Macro& macro, std::shared_ptr<Scope> scope)
      : macro_(macro), scope_(std::move(scope)) {}
  Value call(Interpreter& interpreter, const CallArgs& args) const override {
    return interpreter.call_macro(macro_, scope_, args);
  }

 private:
  const Macro& macro_;  // lives in the template
  std::shared_ptr<Scope> scope_;
};

}  // namespace

Interpreter::Interpreter(const Body& body, const Limits& limits)
    : body_(body), limits_(limits), work_left_(limits.work_max), scope_(std::make_shared<Scope>()) {
  captured_.push_back(scope_);
}

// Cuts every tie first, so that nothing is freed through a long chain of destructors.
Interpreter::~Interpreter() {
  for (const auto& space : namespaces_) space->fields.clear();
  for (const auto& scope : captured_) scope->variables.clear();
  for (const auto& scope : captured_) scope->parent.reset();
}

void Interpreter::set(std::string name, Value value) {
  scope_->variables.insert_or_assign(std::move(name), std::move(value));
}

Text Interpreter::run() {
  Text out;
  out_ = &out;
  run_body(body_);
  out_ = nullptr;
  return out;
}

void Interpreter::charge(size_t units) {
  work_left_ -= static_cast<int64_t>(std::min<size_t>(units, INT32_MAX));
  if (work_left_ < 0) throw TemplateError{"the template takes too many steps"};
}

Value Interpreter::make_text(Text text) {
  if (text.bytes.size() > limits_.text_bytes_max)
    throw TemplateError{"a text of the template is too long"};
  charge(text.bytes.size() / kBytesPerWorkUnit + text.literal.size());
  return Value(std::make_shared<const Text>(std::move(text)));
}

Value Interpreter::make_list(std::vector<Value> items, bool tuple) {
  if (items.size() > limits_.items_max) throw TemplateError{"a list of the template is too long"};
  charge(items.size());
  auto list = std::make_shared<List>();
  for (const Value& item : items) {
    list->depth = std::max(list->depth, item.depth() + 1);
    list->weight += item.weight();
  }
  check_container(list->depth, list->weight);
  list->items = std::move(items);
  list->tuple = tuple;
  return Value(Value::ListPtr(std::move(list)));
}

Value Interpreter::make_dict(std::vector<std::pair<Value, Value>> items) {
  charge(items.size());
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, value] : items) {
    dict->depth = std::max({dict->depth, key.depth() + 1, value.depth() + 1});
    dict->weight += key.weight() + value.weight();
  }
  check_container(dict->depth, dict->weight);
  dict->items = std::move(items);
  return Value(Value::DictPtr(std::move(dict)));
}

void Interpreter::check_container(int depth, size_t weight) const {
  if (depth > limits_.value_depth_max)
    throw TemplateError{"a value of the template is nested too deeply"};
  if (weight > limits_.value_weight_max)
    throw TemplateError{"a value of the template is too large"};
}

Value Interpreter::make_namespace(std::vector<std::pair<std::string, Value>> fields) {
  auto space = std::make_shared<Namespace>();
  space->fields = std::move(fields);
  namespaces_.push_back(space);
  return Value(std::move(space));
}

std::vector<Value> Interpreter::iterate(const Value& value) {
  std::vector<Value> items;
  if (value.is_list()) {
    items = value.items();
  } else if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict().items) items.push_back(key);
  } else if (value.is_text()) {
    const Text& text = value.as_text();
    if (text.bytes.size() > limits_.items_max * 4)
      throw TemplateError{"a text is too long to go through"};
    for (size_t pos = 0; pos < text.bytes.size();) {
      const size_t begin = pos;
      pos += utf8_length(text.bytes, pos);
      items.push_back(make_text(text.slice(begin, pos)));
    }
  } else if (!value.is_undefined()) {
    throw TemplateError{fmt::format("'{}' object is not iterable", value.type_name())};
  }
  charge(items.size());
  return items;
}

Interpreter::Flow Interpreter::run_body(const Body& body) {
  for (const auto& stmt : body) {
    charge(1);
    try {
      const Flow flow = run_stmt(*stmt);
      if (flow != Flow::kNormal) return flow;
    } catch (TemplateError& error) {
      if (error.line == 0) error.line = stmt->line;
      throw;
    }
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_stmt(const Stmt& stmt) {
  const DepthGuard guard(*this);
  switch (stmt.kind) {
    case Stmt::Kind::kData:
      emit(Text(stmt.text));
      break;
    case Stmt::Kind::kOutput:
      emit(to_text(eval(*stmt.expr)));
      break;
    case Stmt::Kind::kIf:
      return run_if(stmt);
    case Stmt::Kind::kFor:
      return run_for(stmt);
    case Stmt::Kind::kSet:
      assign(stmt.target, eval(*stmt.expr));
      break;
    case Stmt::Kind::kSetBlock: {
      Value value = make_text(capture(stmt.body));
      if (stmt.expr != nullptr) value = apply_filters(*stmt.expr, value);
      assign(stmt.target, value);
      break;
    }
    case Stmt::Kind::kMacro:
      set(stmt.macro->name,
          Value(std::make_shared<const MacroValue>(*stmt.macro, captured_scope())));
      break;
    case Stmt::Kind::kCall:
      run_call(stmt);
      break;
    case Stmt::Kind::kFilter:
      emit(to_text(apply_filters(*stmt.expr, make_text(capture(stmt.body)))));
      break;
    case Stmt::Kind::kWith:
      return run_with(stmt);
    case Stmt::Kind::kBlock:
      return run_body(stmt.body);
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_if(const Stmt& stmt) {
  for (const auto& [condition, body] : stmt.branches)
    if (eval(*condition).truthy()) return run_body(body);
  return run_body(stmt.otherwise);
}

Interpreter::Flow Interpreter::run_for(const Stmt& stmt) {
  std::vector<Value> items = iterate(eval(*stmt.expr));
  const std::shared_ptr<Scope> outer = scope_;
  const auto enter = [&] {
    scope_ = std::make_shared<Scope>();
    scope_->parent = outer;
  };
  struct Restore {
    std::shared_ptr<Scope>& scope;
    const std::shared_ptr<Scope>& value;
    ~Restore() { scope = value; }
  } restore{scope_, outer};
  if (stmt.condition != nullptr) {
    std::vector<Value> kept;
    for (const Value& item : items) {
      enter();
      assign(stmt.target, item);
      if (eval(*stmt.condition).truthy()) kept.push_back(item);
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    scope_ = outer;
    return run_body(stmt.otherwise);
  }
  const auto shared = std::make_shared<const std::vector<Value>>(std::move(items));
  const auto loop = std::make_shared<Loop>();
  loop->items = shared;
  for (size_t i = 0; i < shared->size(); ++i) {
    charge(1);
    loop->index0 = i;
    enter();
    set("loop", Value(loop));
    assign(stmt.target, (*shared)[i]);
    if (run_body(stmt.body) == Flow::kBreak) break;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_with(const Stmt& stmt) {
  const std::shared_ptr<Scope> outer = scope_;
  struct Restore {
    std::shared_ptr<Scope>& scope;
    const std::shared_ptr<Scope>& value;
    ~Restore() { scope = value; }
  } restore{scope_, outer};
  const auto inner = std::make_shared<Scope>();
  inner->parent = outer;
  for (const auto& [target, expr] : stmt.assignments) {
    Value value = eval(*expr);  // sees the names outside
    inner->variables.insert_or_assign(target.name, std::move(value));
  }
  scope_ = inner;
  return run_body(stmt.body);
}

void Interpreter::run_call(const Stmt& stmt) {
  CallArgs args = eval_args(*stmt.expr);
  args.named.emplace_back("caller",
                          Value(std::make_shared<const MacroValue>(*stmt.macro, captured_scope())));
  emit(to_text(call(eval(*stmt.expr->items[0]), args)));
}

std::shared_ptr<Scope> Interpreter::captured_scope() {
  if (captured_.back() != scope_) captured_.push_back(scope_);
  return scope_;
}

Text Interpreter::capture(const Body& body) {
  Text text;
  struct Restore {
    Text*& out;
    Text* value;
    ~Restore() { out = value; }
  } restore{out_, std::exchange(out_, &text)};
  run_body(body);
  return text;
}

void Interpreter::emit(const Text& text) {
  charge(text.bytes.size() / kBytesPerWorkUnit + text.literal.size());
  if (out_->bytes.size() + text.bytes.size() > limits_.text_bytes_max)
    throw TemplateError{"the output of the template is too long"};
  out_->append(text);
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.kind == Target::Kind::kName) {
    set(target.name, value);
  } else if (target.kind == Target::Kind::kNamespaceField) {
    const Value object = eval_name(target.name);
    if (!object.is_namespace())
      throw TemplateError{"cannot assign attribute on non-namespace object"};
    if (target.field.starts_with('_'))
      throw TemplateError{"fields of a namespace cannot start with an underscore"};
    auto& fields = object.as_namespace()->fields;
    const auto it = std::ranges::find(fields, target.field, &std::pair<std::string, Value>::first);
    if (it != fields.end()) {
      it->second = value;
    } else {
      fields.emplace_back(target.field, value);
    }
  } else {
    const std::vector<Value> items = iterate(value);
    if (items.size() != target.parts.size())
      throw TemplateError{
          fmt::format("cannot unpack {} values into {} names", items.size(), target.parts.size())};
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
  }
}

}  // namespace hs::jinja
