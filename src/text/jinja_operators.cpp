// Operators and access of the interpreter, with Python's rules for each kind of value.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "text/jinja_format.h"
#include "text/jinja_interpreter.h"
#include "text/unicode.h"

namespace hs::jinja {
namespace {

[[noreturn]] void undefined_error(const Value& value) {
  throw TemplateError{fmt::format("'{}' is undefined", value.undefined_name())};
}

void refuse_overflow(bool overflow) {
  if (overflow) throw TemplateError{"integer overflow"};
}

int64_t floor_divide(int64_t a, int64_t b) {
  refuse_overflow(a == INT64_MIN && b == -1);
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0) {
      const int64_t factor = result;
      refuse_overflow(__builtin_mul_overflow(factor, base, &result));
    }
    exponent >>= 1;
    if (exponent > 0) {
      const int64_t root = base;
      refuse_overflow(__builtin_mul_overflow(root, root, &base));
    }
  }
  return result;
}

Value integer_operation(char op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case '+':
      refuse_overflow(__builtin_add_overflow(a, b, &result));
      return Value(result);
    case '-':
      refuse_overflow(__builtin_sub_overflow(a, b, &result));
      return Value(result);
    case '*':
      refuse_overflow(__builtin_mul_overflow(a, b, &result));
      return Value(result);
    case '^':
      if (b < 0) return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
      return Value(integer_power(a, b));
    default:
      break;
  }
  if (b == 0) throw TemplateError{"division by zero"};
  if (op == '/') return Value(static_cast<double>(a) / static_cast<double>(b));
  if (op == 'f') return Value(floor_divide(a, b));
  return Value(b == -1 ? int64_t{0} : a - floor_divide(a, b) * b);
}

Value float_operation(char op, double a, double b) {
  switch (op) {
    case '+':
      return Value(a + b);
    case '-':
      return Value(a - b);
    case '*':
      return Value(a * b);
    case '^':
      return Value(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) throw TemplateError{"division by zero"};
  if (op == '/') return Value(a / b);
  if (op == 'f') return Value(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

}  // namespace

Value Interpreter::binary(const std::string& op, const Value& left, const Value& right) {
  if (op == "~") {
    Text text = to_text(left);
    text.append(to_text(right));
    return make_text(std::move(text));
  }
  if (left.is_undefined()) undefined_error(left);
  if (right.is_undefined()) undefined_error(right);
  if (op == "%" && left.is_text()) return format_percent(left.as_text(), right);
  if (left.is_number() && right.is_number()) {
    const char code = op == "//" ? 'f' : op == "**" ? '^' : op[0];
    if (left.is_float() || right.is_float())
      return float_operation(code, left.as_float(), right.as_float());
    return integer_operation(code, left.as_int(), right.as_int());
  }
  if (op == "+") return add(left, right);
  const auto is_count = [](const Value& value) { return value.is_int() || value.is_bool(); };
  if (op == "*" && is_count(right)) return repeat(left, right.as_int());
  if (op == "*" && is_count(left)) return repeat(right, left.as_int());
  throw TemplateError{fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", op,
                                  left.type_name(), right.type_name())};
}

Value Interpreter::add(const Value& left, const Value& right) {
  if (left.is_text() && right.is_text()) {
    Text text = left.as_text();
    text.append(right.as_text());
    return make_text(std::move(text));
  }
  if (left.is_list() && right.is_list() && left.is_tuple() == right.is_tuple()) {
    std::vector<Value> items = left.items();
    items.insert(items.end(), right.items().begin(), right.items().end());
    return make_list(std::move(items), left.is_tuple());
  }
  throw TemplateError{fmt::format("unsupported operand type(s) for +: '{}' and '{}'",
                                  left.type_name(), right.type_name())};
}

Value Interpreter::repeat(const Value& value, int64_t count) {
  const size_t times = count < 0 ? 0 : static_cast<size_t>(count);
  if (value.is_text()) {
    const size_t bytes = value.bytes().size();
    if (bytes != 0 && times > limits_.text_bytes_max / bytes)
      throw TemplateError{"a text of the template is too long"};
    charge(bytes * times / kBytesPerWorkUnit);
    Text text;
    for (size_t i = 0; i < times && bytes > 0; ++i) text.append(value.as_text());
    return make_text(std::move(text));
  }
  if (!value.is_list())
    throw TemplateError{
        fmt::format("unsupported operand type(s) for *: '{}' and 'int'", value.type_name())};
  const size_t size = value.items().size();
  if (size != 0 && times > limits_.items_max / size)
    throw TemplateError{"a list of the template is too long"};
  std::vector<Value> items;
  for (size_t i = 0; i < times && size > 0; ++i)
    items.insert(items.end(), value.items().begin(), value.items().end());
  return make_list(std::move(items), value.is_tuple());
}

// "..." % args, with %s, %r, %d, %i, %f (and its digits) and %%.
Value Interpreter::format_percent(const Text& format, const Value& args) {
  std::vector<Value> values = args.is_tuple() ? args.items() : std::vector<Value>{args};
  size_t next = 0;
  Text out;
  size_t done = 0;
  const std::string_view bytes = format.bytes;
  for (size_t at = bytes.find('%'); at != std::string_view::npos; at = bytes.find('%', done)) {
    out.append(format.slice(done, at));
    size_t pos = at + 1;
    int digits = 6;
    if (pos < bytes.size() && bytes[pos] == '.') {
      digits = 0;
      for (++pos; pos < bytes.size() && bytes[pos] >= '0' && bytes[pos] <= '9'; ++pos)
        digits = std::min(digits * 10 + (bytes[pos] - '0'), 100);
    }
    if (pos == bytes.size()) throw TemplateError{"incomplete format"};
    const char kind = bytes[pos];
    done = pos + 1;
    if (kind == '%') {
      out.append("%");
      continue;
    }
    if (next == values.size()) throw TemplateError{"not enough arguments for format string"};
    const Value& value = values[next++];
    charge(value.weight());
    if (kind == 's') {
      append_str(out, value);
    } else if (kind == 'r') {
      append_repr(out, value);
    } else if ((kind == 'd' || kind == 'i') && value.is_number() && !value.is_float()) {
      out.append(std::to_string(value.as_int()));
    } else if ((kind == 'f' || kind == 'F') && value.is_number()) {
      out.append(fmt::format("{:.{}f}", value.as_float(), digits));
    } else {
      throw TemplateError{
          fmt::format("the format %{} is not supported for '{}'", kind, value.type_name())};
    }
  }
  if (next < values.size() && !args.is_dict())
    throw TemplateError{"not all arguments converted during string formatting"};
  out.append(format.slice(done, bytes.size()));
  return make_text(std::move(out));
}

bool Interpreter::contains(const Value& container, const Value& item) {
  charge(container.weight());
  if (container.is_text()) {
    if (!item.is_text())
      throw TemplateError{
          fmt::format("'in <string>' requires string as left operand, not {}", item.type_name())};
    return container.bytes().find(item.bytes()) != std::string_view::npos;
  }
  if (container.is_list())
    return std::ranges::any_of(container.items(),
                               [&](const Value& element) { return equal(element, item); });
  if (container.is_dict()) return container.as_dict().find(item) != nullptr;
  if (container.is_undefined()) return false;
  throw TemplateError{fmt::format("argument of type '{}' is not iterable", container.type_name())};
}

namespace {

// Of `loop`.
class LoopFunction final : public Callable {
 public:
  LoopFunction(Value loop, bool cycle) : loop_(std::move(loop)), cycle_(cycle) {}
  Value call(Interpreter& interpreter, const CallArgs& args) const override {
    const Loop& loop = loop_.as_loop();
    if (!args.named.empty()) throw TemplateError{"this function takes no keyword arguments"};
    if (cycle_) {
      if (args.positional.empty()) throw TemplateError{"no items for cycling given"};
      return args.positional[loop.index0 % args.positional.size()];
    }
    interpreter.charge(args.positional.size());
    const bool same =
        loop.has_changed && std::ranges::equal(loop.last_changed, args.positional, equal);
    loop.has_changed = true;
    if (!same) loop.last_changed = args.positional;
    return Value(!same);
  }

 private:
  Value loop_;
  bool cycle_;
};

Value loop_attribute(const Value& object, const std::string& name) {
  const Loop& loop = object.as_loop();
  const auto size = static_cast<int64_t>(loop.items->size());
  const auto index0 = static_cast<int64_t>(loop.index0);
  if (name == "index") return Value(index0 + 1);
  if (name == "index0") return Value(index0);
  if (name == "revindex") return Value(size - index0);
  if (name == "revindex0") return Value(size - index0 - 1);
  if (name == "first") return Value(index0 == 0);
  if (name == "last") return Value(index0 + 1 == size);
  if (name == "length") return Value(size);
  if (name == "depth") return Value(loop.depth0 + 1);
  if (name == "depth0") return Value(loop.depth0);
  if (name == "previtem")
    return index0 == 0 ? Value::undefined("there is no previous item")
                       : (*loop.items)[loop.index0 - 1];
  if (name == "nextitem")
    return index0 + 1 == size ? Value::undefined("there is no next item")
                              : (*loop.items)[loop.index0 + 1];
  if (name == "cycle" || name == "changed")
    return Value(std::make_shared<const LoopFunction>(object, name == "cycle"));
  return Value::undefined(name);
}

Value namespace_field(const Value& object, std::string_view name) {
  for (const auto& [field, value] : object.as_namespace()->fields)
    if (field == name) return value;
  return Value::undefined(name);
}

}  // namespace

Value Interpreter::attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) undefined_error(object);
  if (object.is_namespace()) return namespace_field(object, name);
  if (object.is_loop()) return loop_attribute(object, name);
  Value method = bound_method(object, name);
  if (!method.is_undefined()) return method;
  if (object.is_dict()) {
    charge(object.as_dict().items.size());
    if (const Value* value = object.as_dict().find(name)) return *value;
  }
  return Value::undefined(name);
}

Value Interpreter::subscript(const Value& object, const Value& key) {
  if (object.is_undefined()) undefined_error(object);
  if (object.is_dict()) {
    charge(object.as_dict().items.size());
    if (const Value* value = object.as_dict().find(key)) return *value;
  } else if (object.is_list() && (key.is_int() || key.is_bool())) {
    const auto size = static_cast<int64_t>(object.items().size());
    const int64_t index = key.as_int() < 0 ? key.as_int() + size : key.as_int();
    if (index >= 0 && index < size) return object.items()[static_cast<size_t>(index)];
  } else if (object.is_text() && (key.is_int() || key.is_bool())) {
    const std::vector<Value> characters = iterate(object);
    const auto size = static_cast<int64_t>(characters.size());
    const int64_t index = key.as_int() < 0 ? key.as_int() + size : key.as_int();
    if (index >= 0 && index < size) return characters[static_cast<size_t>(index)];
  }
  if (key.is_text()) {
    const std::string name(key.bytes());
    if (object.is_namespace()) return namespace_field(object, name);
    if (object.is_loop()) return loop_attribute(object, name);
    Value method = bound_method(object, name);
    if (!method.is_undefined()) return method;
  }
  Text name;
  append_str(name, key);
  return Value::undefined(name.bytes);
}

std::vector<size_t> slice_indices(const Value* start, const Value* stop, const Value* step,
                                  size_t size) {
  const auto bound = [](const Value* value) -> std::pair<bool, int64_t> {
    if (value == nullptr || value->is_none() || value->is_undefined()) return {false, 0};
    if (!value->is_int() && !value->is_bool())
      throw TemplateError{"slice indices must be integers or None"};
    return {true, value->as_int()};
  };
  const auto [has_step, given_step] = bound(step);
  const int64_t by = has_step ? given_step : 1;
  if (by == 0) throw TemplateError{"slice step cannot be zero"};
  const auto count = static_cast<int64_t>(size);
  const int64_t low = by > 0 ? 0 : -1;
  const int64_t high = by > 0 ? count : count - 1;
  const auto clamp = [&](int64_t i) {
    return std::clamp(i < 0 ? std::max(i, -count - 1) + count : i, low, high);
  };
  const auto [has_start, given_start] = bound(start);
  const auto [has_stop, given_stop] = bound(stop);
  const int64_t from = has_start ? clamp(given_start) : by > 0 ? low : high;
  const int64_t to = has_stop ? clamp(given_stop) : by > 0 ? high : low;
  std::vector<size_t> indices;
  const int64_t stride = std::clamp(by, -count - 1, count + 1);
  for (int64_t i = from; stride > 0 ? i < to : i > to; i += stride)
    indices.push_back(static_cast<size_t>(i));
  return indices;
}

ArgReader::ArgReader(std::string_view function, const CallArgs& args,
                     std::initializer_list<std::string_view> parameters)
    : function_(function), parameters_(parameters), values_(parameters.size(), nullptr) {
  if (args.positional.size() > parameters_.size())
    throw TemplateError{fmt::format("{}() takes at most {} arguments ({} given)", function,
                                    parameters_.size(), args.positional.size())};
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto it = std::ranges::find(parameters_, name);
    if (it == parameters_.end())
      throw TemplateError{
          fmt::format("{}() got an unexpected keyword argument '{}'", function, name)};
    const Value*& slot = values_[static_cast<size_t>(it - parameters_.begin())];
    if (slot != nullptr)
      throw TemplateError{
          fmt::format("{}() got multiple values for argument '{}'", function, name)};
    slot = &value;
  }
}

const Value& ArgReader::need(size_t i) const {
  if (values_[i] == nullptr)
    throw TemplateError{fmt::format("{}() missing the argument '{}'", function_, parameters_[i])};
  return *values_[i];
}

int64_t ArgReader::integer(size_t i, int64_t absent) const {
  if (values_[i] == nullptr) return absent;
  if (!values_[i]->is_int() && !values_[i]->is_bool())
    throw TemplateError{fmt::format("{}(): '{}' must be an integer", function_, parameters_[i])};
  return values_[i]->as_int();
}

const Text& ArgReader::text(size_t i) const {
  if (!need(i).is_text())
    throw TemplateError{fmt::format("{}(): '{}' must be a string", function_, parameters_[i])};
  return need(i).as_text();
}

}  // namespace hs::jinja
