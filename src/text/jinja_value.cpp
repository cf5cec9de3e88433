#include "text/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>

namespace hs::jinja {

void Text::append(std::string_view text, bool is_literal) {
  if (text.empty()) return;
  const size_t begin = bytes.size();
  bytes += text;
  if (!is_literal) return;
  if (!literal.empty() && literal.back().end == begin) {
    literal.back().end = bytes.size();
  } else {
    literal.push_back({begin, bytes.size()});
  }
}

void Text::append(const Text& other) {
  size_t done = 0;
  for (const TextSpan& span : other.literal) {
    append(std::string_view(other.bytes).substr(done, span.begin - done));
    append(std::string_view(other.bytes).substr(span.begin, span.end - span.begin), true);
    done = span.end;
  }
  append(std::string_view(other.bytes).substr(done));
}

Text Text::slice(size_t begin, size_t end) const {
  Text result;
  result.bytes = bytes.substr(begin, end - begin);
  for (const TextSpan& span : literal) {
    const size_t from = std::max(span.begin, begin);
    const size_t to = std::min(span.end, end);
    if (from < to) result.literal.push_back({from - begin, to - begin});
  }
  return result;
}

bool Text::literal_at(size_t pos) const {
  const auto it = std::ranges::upper_bound(literal, pos, {}, &TextSpan::end);
  return it != literal.end() && it->begin <= pos;
}

Value Value::undefined(std::string_view name) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(name)};
  return value;
}

std::string_view Value::undefined_name() const {
  const auto& name = std::get<Undefined>(data_).name;
  return name == nullptr ? std::string_view("value") : std::string_view(*name);
}

bool Value::is_tuple() const {
  return is_list() && std::get<ListPtr>(data_)->tuple;
}

const std::vector<Value>& Value::items() const {
  return std::get<ListPtr>(data_)->items;
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return is_float() ? as_float() != 0.0 : as_int() != 0;
  if (is_text()) return !bytes().empty();
  if (is_list()) return !items().empty();
  if (is_dict()) return !as_dict().items.empty();
  return true;
}

int Value::depth() const {
  if (is_list()) return std::get<ListPtr>(data_)->depth;
  return is_dict() ? as_dict().depth : 0;
}

size_t Value::weight() const {
  if (is_list()) return std::get<ListPtr>(data_)->weight;
  if (is_dict()) return as_dict().weight;
  return is_text() ? 1 + bytes().size() / 16 : 1;
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_text()) return "str";
  if (is_list()) return is_tuple() ? "tuple" : "list";
  if (is_dict()) return "dict";
  if (is_namespace()) return "Namespace";
  return is_loop() ? "LoopContext" : "function";
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items)
    if (name.is_text() && name.bytes() == key) return &value;
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_text()) return find(key.bytes());
  for (const auto& [name, value] : items)
    if (equal(name, key)) return &value;
  return nullptr;
}

namespace {

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  return std::ranges::all_of(a.items, [&](const auto& item) {
    const Value* other = b.find(item.first);
    return other != nullptr && equal(item.second, *other);
  });
}

}  // namespace

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number())
    return a.is_float() || b.is_float() ? a.as_float() == b.as_float() : a.as_int() == b.as_int();
  if (a.is_text() && b.is_text()) return a.bytes() == b.bytes();
  if (a.is_list() && b.is_list())
    return a.is_tuple() == b.is_tuple() && std::ranges::equal(a.items(), b.items(), equal);
  if (a.is_dict() && b.is_dict()) return equal_dicts(a.as_dict(), b.as_dict());
  if (a.is_undefined() || a.is_none())
    return (a.is_undefined() && b.is_undefined()) || (a.is_none() && b.is_none());
  if (a.is_namespace() && b.is_namespace()) return a.as_namespace() == b.as_namespace();
  if (a.is_callable() && b.is_callable()) return &a.as_callable() == &b.as_callable();
  return a.is_loop() && b.is_loop() && &a.as_loop() == &b.as_loop();
}

bool less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number())
    return a.is_float() || b.is_float() ? a.as_float() < b.as_float() : a.as_int() < b.as_int();
  if (a.is_text() && b.is_text())
    return a.bytes() < b.bytes();  // UTF-8 keeps the order of characters
  if (a.is_list() && b.is_list() && a.is_tuple() == b.is_tuple())
    return std::ranges::lexicographical_compare(
        a.items(), b.items(),
        [](const Value& x, const Value& y) { return !equal(x, y) && less(x, y); });
  for (const Value* value : {&a, &b})
    if (value->is_undefined())
      throw TemplateError{fmt::format("'{}' is undefined", value->undefined_name())};
  throw TemplateError{fmt::format("'<' not supported between instances of '{}' and '{}'",
                                  a.type_name(), b.type_name())};
}

}  // namespace hs::jinja
