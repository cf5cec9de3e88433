// The functions of a template and the methods of texts, lists and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "text/jinja_interpreter.h"
#include "text/jinja_text_ops.h"
#include "text/unicode.h"

namespace hs::jinja {
namespace {

constexpr int64_t kRangeMax = 100'000;  // as in Jinja2's sandbox

using Function = Value (*)(Interpreter&, const CallArgs&);
using Method = Value (*)(Interpreter&, const Value& self, const CallArgs&);

class FunctionValue final : public Callable {
 public:
  explicit FunctionValue(Function function) : function_(function) {}
  Value call(Interpreter& interpreter, const CallArgs& args) const override {
    return function_(interpreter, args);
  }

 private:
  Function function_;
};

class MethodValue final : public Callable {
 public:
  MethodValue(Method method, Value self) : method_(method), self_(std::move(self)) {}
  Value call(Interpreter& interpreter, const CallArgs& args) const override {
    interpreter.charge(self_.weight());
    return method_(interpreter, self_, args);
  }

 private:
  Method method_;
  Value self_;
};

Value range(Interpreter& interpreter, const CallArgs& args) {
  const ArgReader in("range", args, {"start", "stop", "step"});
  const bool one = in.get(1) == nullptr;
  (void)in.need(0);
  const int64_t start = one ? 0 : in.integer(0, 0);
  const int64_t stop = one ? in.integer(0, 0) : in.integer(1, 0);
  const int64_t step = in.integer(2, 1);
  if (step == 0) throw TemplateError{"range() arg 3 must not be zero"};
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) == kRangeMax)
      throw TemplateError{fmt::format("range too big, the limit is {}", kRangeMax)};
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return interpreter.make_list(std::move(items));
}

// Fields from a mapping and keyword arguments, as dict() and namespace() take them.
std::vector<std::pair<Value, Value>> fields_of(Interpreter& interpreter, const CallArgs& args,
                                               std::string_view name) {
  std::vector<std::pair<Value, Value>> fields;
  const auto put = [&](Value key, Value value) {
    interpreter.charge(fields.size());
    const auto it =
        std::ranges::find_if(fields, [&](const auto& field) { return equal(field.first, key); });
    if (it != fields.end()) {
      it->second = std::move(value);
    } else {
      fields.emplace_back(std::move(key), std::move(value));
    }
  };
  if (args.positional.size() > 1)
    throw TemplateError{fmt::format("{}() takes at most 1 argument", name)};
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is_dict()) {
      for (const auto& [key, value] : from.as_dict().items) put(key, value);
    } else {
      for (const Value& pair : interpreter.iterate(from)) {
        const std::vector<Value> parts = interpreter.iterate(pair);
        if (parts.size() != 2)
          throw TemplateError{fmt::format("{}(): an element is not a pair", name)};
        put(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [key, value] : args.named) put(Value::text(key), value);
  return fields;
}

Value make_dict(Interpreter& interpreter, const CallArgs& args) {
  return interpreter.make_dict(fields_of(interpreter, args, "dict"));
}

Value make_namespace(Interpreter& interpreter, const CallArgs& args) {
  std::vector<std::pair<std::string, Value>> fields;
  for (auto& [key, value] : fields_of(interpreter, args, "namespace")) {
    if (!key.is_text() || key.bytes().starts_with('_'))
      throw TemplateError{
          "fields of a namespace must be names that do not start with an underscore"};
    fields.emplace_back(std::string(key.bytes()), std::move(value));
  }
  return interpreter.make_namespace(std::move(fields));
}

Value raise_exception(Interpreter& interpreter, const CallArgs& args) {
  const ArgReader in("raise_exception", args, {"message"});
  throw TemplateError{interpreter.to_text(in.need(0)).bytes};
}

class StrftimeNow final : public Callable {
 public:
  explicit StrftimeNow(int64_t unix_s) : unix_s_(unix_s) {}
  Value call(Interpreter& interpreter, const CallArgs& args) const override {
    const ArgReader in("strftime_now", args, {"format"});
    const std::string& format = in.text(0).bytes;
    if (format.size() > 256) throw TemplateError{"strftime_now(): the format is too long"};
    if (format.empty()) return interpreter.make_text(Text());
    const auto seconds = static_cast<std::time_t>(unix_s_);
    std::tm local{};
    if (localtime_r(&seconds, &local) == nullptr)
      throw TemplateError{"strftime_now(): no such time"};
    std::array<char, 4096> buffer{};
    const size_t length = std::strftime(buffer.data(), buffer.size(), format.c_str(), &local);
    std::string valid;
    append_lossy(valid, {buffer.data(), length});
    return interpreter.make_text(Text(valid));
  }

 private:
  int64_t unix_s_;
};

// ---- methods of texts

Value strip_with(Interpreter& interpreter, const Value& self, const CallArgs& args, bool left,
                 bool right) {
  const ArgReader in("strip", args, {"chars"});
  const bool given = in.get(0) != nullptr && !in.get(0)->is_none();
  return interpreter.make_text(strip(self.as_text(), given ? &in.text(0) : nullptr, left, right));
}

Value list_of(Interpreter& interpreter, std::vector<Text> parts, bool tuple = false) {
  std::vector<Value> items;
  for (Text& part : parts) items.push_back(interpreter.make_text(std::move(part)));
  return interpreter.make_list(std::move(items), tuple);
}

Value split_with(Interpreter& interpreter, const Value& self, const CallArgs& args,
                 bool from_right) {
  const ArgReader in("split", args, {"sep", "maxsplit"});
  std::optional<std::string_view> separator;
  if (in.get(0) != nullptr && !in.get(0)->is_none()) separator = in.text(0).bytes;
  const int64_t splits = in.integer(1, -1);
  return list_of(interpreter, from_right ? split_from_right(self.as_text(), separator, splits)
                                         : split(self.as_text(), separator, splits));
}

Value partition_with(Interpreter& interpreter, const Value& self, const CallArgs& args,
                     bool from_right) {
  const ArgReader in("partition", args, {"sep"});
  const Text& separator = in.text(0);
  if (separator.bytes.empty()) throw TemplateError{"empty separator"};
  const Text& text = self.as_text();
  const size_t at =
      from_right ? text.bytes.rfind(separator.bytes) : text.bytes.find(separator.bytes);
  std::vector<Text> parts;
  if (at == std::string::npos) {
    parts = {text, Text(), Text()};
    if (from_right) std::swap(parts[0], parts[2]);
  } else {
    parts = {text.slice(0, at), text.slice(at, at + separator.bytes.size()),
             text.slice(at + separator.bytes.size(), text.bytes.size())};
  }
  return list_of(interpreter, std::move(parts), true);
}

Value affix_test(const Value& self, const CallArgs& args, bool at_start) {
  const ArgReader in(at_start ? "startswith" : "endswith", args, {"affix"});
  const auto matches = [&](const Value& affix) {
    if (!affix.is_text())
      throw TemplateError{
          "startswith or endswith: the argument must be a string or a tuple of them"};
    return at_start ? self.bytes().starts_with(affix.bytes())
                    : self.bytes().ends_with(affix.bytes());
  };
  if (in.need(0).is_tuple()) return Value(std::ranges::any_of(in.need(0).items(), matches));
  return Value(matches(in.need(0)));
}

Value find_with(const Value& self, const CallArgs& args, bool from_right, bool must) {
  const ArgReader in("find", args, {"sub"});
  const size_t at =
      from_right ? self.bytes().rfind(in.text(0).bytes) : self.bytes().find(in.text(0).bytes);
  if (at == std::string_view::npos && must) throw TemplateError{"substring not found"};
  return Value(at == std::string_view::npos ? int64_t{-1} : character_index(self.bytes(), at));
}

Value removed_affix(Interpreter& interpreter, const Value& self, const CallArgs& args,
                    bool at_start) {
  const ArgReader in("removeprefix", args, {"affix"});
  const Text& text = self.as_text();
  const std::string& affix = in.text(0).bytes;
  const bool there = at_start ? text.bytes.starts_with(affix) : text.bytes.ends_with(affix);
  if (!there) return self;
  return interpreter.make_text(at_start ? text.slice(affix.size(), text.bytes.size())
                                        : text.slice(0, text.bytes.size() - affix.size()));
}

Value cased(Interpreter& interpreter, const Value& self, const CallArgs& args, Case form) {
  const ArgReader in("case", args, {});
  return interpreter.make_text(with_case(self.as_text(), form));
}

// Not empty, and every character passes.
Value every_character(const Value& self, const CallArgs& args, bool (*passes)(char32_t)) {
  const ArgReader in("is", args, {});
  const std::string_view text = self.bytes();
  for (size_t pos = 0; pos < text.size();)
    if (!passes(next_char(text, pos))) return Value(false);
  return Value(!text.empty());
}

// Has letters with case, and none of the other case.
Value has_only_case(const Value& self, bool upper) {
  bool found = false;
  const std::string_view text = self.bytes();
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_char(text, pos);
    if (upper ? is_lower(c) : is_upper(c)) return Value(false);
    found = found || (upper ? is_upper(c) : is_lower(c));
  }
  return Value(found);
}

Value replace_method(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const ArgReader in("replace", args, {"old", "new", "count"});
  return interpreter.make_text(
      replace(self.as_text(), in.text(0).bytes, in.text(1), in.integer(2, -1)));
}

Value count_method(Interpreter&, const Value& self, const CallArgs& args) {
  const ArgReader in("count", args, {"sub"});
  const std::string& sub = in.text(0).bytes;
  if (sub.empty()) return Value(static_cast<int64_t>(character_count(self.bytes())) + 1);
  int64_t count = 0;
  for (size_t at = self.bytes().find(sub); at != std::string_view::npos;
       at = self.bytes().find(sub, at + sub.size()))
    ++count;
  return Value(count);
}

Value join_method(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const ArgReader in("join", args, {"iterable"});
  Text out;
  bool first = true;
  for (const Value& item : interpreter.iterate(in.need(0))) {
    if (!item.is_text())
      throw TemplateError{fmt::format("join(): expected str instance, {} found", item.type_name())};
    interpreter.charge(item.weight() + self.weight());
    if (!std::exchange(first, false)) out.append(self.as_text());
    out.append(item.as_text());
  }
  return interpreter.make_text(std::move(out));
}

Value split_lines_method(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const ArgReader in("splitlines", args, {"keepends"});
  return list_of(interpreter, split_lines(self.as_text(), in.truthy(0, false)));
}

struct NamedMethod {
  std::string_view name;
  Method method;
};

constexpr auto kTextMethods = std::to_array<NamedMethod>({
    {"strip", [](Interpreter& i, const Value& s, const CallArgs& a) { return strip_with(i, s, a, true, true); }},
    {"lstrip", [](Interpreter& i, const Value& s, const CallArgs& a) { return strip_with(i, s, a, true, false); }},
    {"rstrip", [](Interpreter& i, const Value& s, const CallArgs& a) { return strip_with(i, s, a, false, true); }},
    {"split", [](Interpreter& i, const Value& s, const CallArgs& a) { return split_with(i, s, a, false); }},
    {"rsplit", [](Interpreter& i, const Value& s, const CallArgs& a) { return split_with(i, s, a, true); }},
    {"splitlines", &split_lines_method},
    {"partition", [](Interpreter& i, const Value& s, const CallArgs& a) { return partition_with(i, s, a, false); }},
    {"rpartition", [](Interpreter& i, const Value& s, const CallArgs& a) { return partition_with(i, s, a, true); }},
    {"startswith", [](Interpreter&, const Value& s, const CallArgs& a) { return affix_test(s, a, true); }},
    {"endswith", [](Interpreter&, const Value& s, const CallArgs& a) { return affix_test(s, a, false); }},
    {"removeprefix", [](Interpreter& i, const Value& s, const CallArgs& a) { return removed_affix(i, s, a, true); }},
    {"removesuffix", [](Interpreter& i, const Value& s, const CallArgs& a) { return removed_affix(i, s, a, false); }},
    {"find", [](Interpreter&, const Value& s, const CallArgs& a) { return find_with(s, a, false, false); }},
    {"rfind", [](Interpreter&, const Value& s, const CallArgs& a) { return find_with(s, a, true, false); }},
    {"index", [](Interpreter&, const Value& s, const CallArgs& a) { return find_with(s, a, false, true); }},
    {"count", &count_method},
    {"join", &join_method},
    {"replace", &replace_method},
    {"upper", [](Interpreter& i, const Value& s, const CallArgs& a) { return cased(i, s, a, Case::kUpper); }},
    {"lower", [](Interpreter& i, const Value& s, const CallArgs& a) { return cased(i, s, a, Case::kLower); }},
    {"title", [](Interpreter& i, const Value& s, const CallArgs& a) { return cased(i, s, a, Case::kTitle); }},
    {"capitalize", [](Interpreter& i, const Value& s, const CallArgs& a) { return cased(i, s, a, Case::kCapitalized); }},
    {"isspace", [](Interpreter&, const Value& s, const CallArgs& a) { return every_character(s, a, &is_python_space); }},
    {"isalpha", [](Interpreter&, const Value& s, const CallArgs& a) { return every_character(s, a, &is_letter); }},
    {"isalnum",
     [](Interpreter&, const Value& s, const CallArgs& a) {
       return every_character(s, a, [](char32_t c) { return is_letter(c) || is_number(c); });
     }},
    {"isdigit",
     [](Interpreter&, const Value& s, const CallArgs& a) {
       return every_character(s, a, [](char32_t c) { return is_number(c); });
     }},
    {"isupper", [](Interpreter&, const Value& s, const CallArgs&) { return has_only_case(s, true); }},
    {"islower", [](Interpreter&, const Value& s, const CallArgs&) { return has_only_case(s, false); }},
});

// ---- methods of dicts and lists

Value dict_items(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const ArgReader in("items", args, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.as_dict().items)
    items.push_back(interpreter.make_list({key, value}, true));
  return interpreter.make_list(std::move(items));
}

Value dict_keys(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const ArgReader in("keys", args, {});
  return interpreter.make_list(interpreter.iterate(self));
}

Value dict_values(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const ArgReader in("values", args, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.as_dict().items) items.push_back(value);
  return interpreter.make_list(std::move(items));
}

Value dict_get(Interpreter&, const Value& self, const CallArgs& args) {
  const ArgReader in("get", args, {"key", "default"});
  if (const Value* value = self.as_dict().find(in.need(0))) return *value;
  return in.get(1) == nullptr ? Value(None{}) : *in.get(1);
}

Value copy(Interpreter&, const Value& self, const CallArgs&) {
  return self;
}

Value refuse_change(Interpreter&, const Value& self, const CallArgs&) {
  throw TemplateError{fmt::format("a template must not change a '{}'", self.type_name())};
}

constexpr auto kDictMethods = std::to_array<NamedMethod>({
    {"items", &dict_items},
    {"keys", &dict_keys},
    {"values", &dict_values},
    {"get", &dict_get},
    {"copy", &copy},
    {"pop", &refuse_change},
    {"popitem", &refuse_change},
    {"update", &refuse_change},
    {"clear", &refuse_change},
    {"setdefault", &refuse_change},
});

Value list_index(Interpreter&, const Value& self, const CallArgs& args) {
  const ArgReader in("index", args, {"value"});
  const auto it = std::ranges::find_if(self.items(),
                                       [&](const Value& item) { return equal(item, in.need(0)); });
  if (it == self.items().end()) throw TemplateError{"index(): the value is not in the list"};
  return Value(static_cast<int64_t>(it - self.items().begin()));
}

Value list_count(Interpreter&, const Value& self, const CallArgs& args) {
  const ArgReader in("count", args, {"value"});
  return Value(static_cast<int64_t>(std::ranges::count_if(
      self.items(), [&](const Value& item) { return equal(item, in.need(0)); })));
}

constexpr auto kListMethods = std::to_array<NamedMethod>({
    {"index", &list_index},
    {"count", &list_count},
    {"copy", &copy},
    {"append", &refuse_change},
    {"extend", &refuse_change},
    {"insert", &refuse_change},
    {"pop", &refuse_change},
    {"remove", &refuse_change},
    {"clear", &refuse_change},
    {"reverse", &refuse_change},
    {"sort", &refuse_change},
});

template <typename Table>
Value bound(const Table& table, const Value& object, std::string_view name) {
  for (const NamedMethod& entry : table)
    if (entry.name == name) return Value(std::make_shared<const MethodValue>(entry.method, object));
  return Value();
}

}  // namespace

Value bound_method(const Value& object, const std::string& name) {
  if (object.is_text()) return bound(kTextMethods, object, name);
  if (object.is_dict()) return bound(kDictMethods, object, name);
  return object.is_list() ? bound(kListMethods, object, name) : Value();
}

std::shared_ptr<const Callable> find_global(std::string_view name) {
  if (name == "range") return std::make_shared<const FunctionValue>(&range);
  if (name == "namespace") return std::make_shared<const FunctionValue>(&make_namespace);
  if (name == "dict") return std::make_shared<const FunctionValue>(&make_dict);
  if (name == "raise_exception") return std::make_shared<const FunctionValue>(&raise_exception);
  return nullptr;
}

std::shared_ptr<const Callable> make_strftime_now(int64_t unix_s) {
  return std::make_shared<const StrftimeNow>(unix_s);
}

}  // namespace hs::jinja
