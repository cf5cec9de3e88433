// The filters of a template, as in Jinja2, with tojson as the transformers library defines it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "text/jinja_format.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_number_filters.h"
#include "text/jinja_parser.h"
#include "text/jinja_text_ops.h"
#include "text/unicode.h"

namespace hs::jinja {
namespace {

// The text of a value, as filters on texts take it.
Text text_of(Interpreter& in, const Value& value) {
  return in.to_text(value);
}

Value cased(Interpreter& in, const Value& input, Case form) {
  return in.make_text(with_case(text_of(in, input), form));
}

Value trim(Interpreter& in, const Value& input, const CallArgs& args) {
  const ArgReader reader("trim", args, {"chars"});
  const bool given = reader.get(0) != nullptr && !reader.get(0)->is_none();
  return in.make_text(strip(text_of(in, input), given ? &reader.text(0) : nullptr, true, true));
}

Value length(Interpreter&, const Value& input, const CallArgs&) {
  if (input.is_undefined()) return Value(int64_t{0});
  if (input.is_text()) return Value(static_cast<int64_t>(character_count(input.bytes())));
  if (input.is_list()) return Value(static_cast<int64_t>(input.items().size()));
  if (input.is_dict()) return Value(static_cast<int64_t>(input.as_dict().items.size()));
  throw TemplateError{fmt::format("object of type '{}' has no len()", input.type_name())};
}

Value join(Interpreter& in, const Value& input, const CallArgs& args) {
  const ArgReader reader("join", args, {"d", "attribute"});
  const Text separator = reader.get(0) == nullptr ? Text() : text_of(in, *reader.get(0));
  Text out;
  bool first = true;
  for (const Value& item : in.iterate(input)) {
    if (!std::exchange(first, false)) out.append(separator);
    in.charge(separator.bytes.size() / kBytesPerWorkUnit);
    out.append(text_of(in, reader.get(1) == nullptr ? item : in.subscript(item, *reader.get(1))));
  }
  return in.make_text(std::move(out));
}

Value first(Interpreter& in, const Value& input, const CallArgs&) {
  const std::vector<Value> items = in.iterate(input);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Interpreter& in, const Value& input, const CallArgs&) {
  const std::vector<Value> items = in.iterate(input);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value default_value(Interpreter&, const Value& input, const CallArgs& args) {
  const ArgReader reader("default", args, {"default_value", "boolean"});
  const bool use = input.is_undefined() || (reader.truthy(1, false) && !input.truthy());
  if (!use) return input;
  return reader.get(0) == nullptr ? Value::text("") : *reader.get(0);
}

Value replace_filter(Interpreter& in, const Value& input, const CallArgs& args) {
  const ArgReader reader("replace", args, {"old", "new", "count"});
  const bool limited = reader.get(2) != nullptr && !reader.get(2)->is_none();
  return in.make_text(replace(text_of(in, input), text_of(in, reader.need(0)).bytes,
                              text_of(in, reader.need(1)), limited ? reader.integer(2, -1) : -1));
}

Value tojson(Interpreter& in, const Value& input, const CallArgs& args) {
  const ArgReader reader("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = reader.truthy(0, false);
  style.sort_keys = reader.truthy(3, false);
  if (const Value* indent = reader.get(1); indent != nullptr && !indent->is_none()) {
    style.indent =
        indent->is_text()
            ? indent->as_text().bytes
            : std::string(static_cast<size_t>(std::clamp<int64_t>(reader.integer(1, 0), 0, 64)),
                          ' ');
    style.item_separator = ",";
  }
  if (const Value* separators = reader.get(2); separators != nullptr && !separators->is_none()) {
    const std::vector<Value> pair = in.iterate(*separators);
    if (pair.size() != 2) throw TemplateError{"tojson(): separators must be a pair"};
    style.item_separator = text_of(in, pair[0]).bytes;
    style.key_separator = text_of(in, pair[1]).bytes;
  }
  in.charge(input.weight() * 2);
  Text out;
  append_json(out, input, style);
  return in.make_text(std::move(out));
}

Value list(Interpreter& in, const Value& input, const CallArgs&) {
  return in.make_list(in.iterate(input));
}

// "a.b.0": attributes within attributes; numbers are indices.
Value path_value(Interpreter& in, Value value, const Value& path, const Value* absent) {
  if (!path.is_text()) return in.subscript(value, path);
  for (const Text& part : split(path.as_text(), ".", -1)) {
    const std::string& name = part.bytes;
    const bool is_index = !name.empty() && name.size() < 10 &&
                          std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    value = is_index ? in.subscript(value, Value(static_cast<int64_t>(std::stol(name))))
                     : in.subscript(value, Value::text(name));
    if (value.is_undefined() && absent != nullptr) value = *absent;
  }
  return value;
}

CallArgs rest_of(const CallArgs& args, size_t skipped) {
  CallArgs rest;
  rest.positional.assign(args.positional.begin() +
                             static_cast<std::ptrdiff_t>(std::min(skipped, args.positional.size())),
                         args.positional.end());
  rest.named = args.named;
  return rest;
}

Value map(Interpreter& in, const Value& input, const CallArgs& args) {
  std::vector<Value> out;
  if (!input.truthy()) return in.make_list({});  // as in Jinja2, before anything else is looked at
  if (args.positional.empty()) {
    const ArgReader reader("map", args, {"attribute", "default"});
    for (const Value& item : in.iterate(input))
      out.push_back(path_value(in, item, reader.need(0), reader.get(1)));
    return in.make_list(std::move(out));
  }
  const Text name = text_of(in, args.positional[0]);
  const FilterFn filter = find_filter(name.bytes);
  if (filter == nullptr) throw TemplateError{fmt::format("No filter named '{}'.", name.bytes)};
  const CallArgs rest = rest_of(args, 1);
  for (const Value& item : in.iterate(input)) {
    in.charge(1);
    out.push_back(filter(in, item, rest));
  }
  return in.make_list(std::move(out));
}

// select, reject, selectattr, rejectattr.
Value choose(Interpreter& in, const Value& input, const CallArgs& args, bool by_attribute,
             bool keep) {
  if (!input.truthy()) return in.make_list({});
  if (by_attribute && args.positional.empty())
    throw TemplateError{"Missing parameter for attribute name"};
  const size_t test_at = by_attribute ? 1 : 0;
  TestFn test = nullptr;
  if (args.positional.size() > test_at) {
    const Text name = text_of(in, args.positional[test_at]);
    test = find_test(name.bytes);
    if (test == nullptr) throw TemplateError{fmt::format("No test named '{}'.", name.bytes)};
  }
  const CallArgs rest = rest_of(args, test_at + 1);
  std::vector<Value> out;
  for (const Value& item : in.iterate(input)) {
    in.charge(1);
    const Value value = by_attribute ? path_value(in, item, args.positional[0], nullptr) : item;
    if ((test == nullptr ? value.truthy() : test(in, value, rest)) == keep) out.push_back(item);
  }
  return in.make_list(std::move(out));
}

// What sorting and comparing look at: texts in lower case unless case counts.
Value sort_key(Interpreter& in, const Value& item, const Value* attribute, bool case_sensitive) {
  const bool has_attribute = attribute != nullptr && !attribute->is_none();
  Value key = has_attribute ? path_value(in, item, *attribute, nullptr) : item;
  if (case_sensitive || !key.is_text()) return key;
  return in.make_text(with_case(key.as_text(), Case::kLower));
}

std::vector<Value> sorted(Interpreter& in, std::vector<Value> items, const Value* attribute,
                          bool case_sensitive, bool reverse) {
  std::vector<std::pair<Value, size_t>> keys;
  for (size_t i = 0; i < items.size(); ++i)
    keys.emplace_back(sort_key(in, items[i], attribute, case_sensitive), i);
  // Kinds that cannot be compared are found before sorting: std::sort must not be left by an
  // exception half-way.
  for (size_t i = 1; i < keys.size(); ++i) (void)less(keys[i - 1].first, keys[i].first);
  std::ranges::stable_sort(keys, [&](const auto& a, const auto& b) {
    in.charge(1 + std::min(a.first.weight(), b.first.weight()));
    return reverse ? less(b.first, a.first) : less(a.first, b.first);
  });
  std::vector<Value> out;
  for (const auto& [key, index] : keys) out.push_back(items[index]);
  return out;
}

Value sort(Interpreter& in, const Value& input, const CallArgs& args) {
  const ArgReader reader("sort", args, {"reverse", "case_sensitive", "attribute"});
  return in.make_list(sorted(in, in.iterate(input), reader.get(2), reader.truthy(1, false),
                             reader.truthy(0, false)));
}

Value unique(Interpreter& in, const Value& input, const CallArgs& args) {
  const ArgReader reader("unique", args, {"case_sensitive", "attribute"});
  std::vector<Value> seen;
  std::vector<Value> out;
  for (const Value& item : in.iterate(input)) {
    const Value key = sort_key(in, item, reader.get(1), reader.truthy(0, false));
    in.charge(seen.size() + 1);
    if (std::ranges::any_of(seen, [&](const Value& other) { return equal(other, key); })) continue;
    seen.push_back(key);
    out.push_back(item);
  }
  return in.make_list(std::move(out));
}

Value extreme(Interpreter& in, const Value& input, const CallArgs& args, bool largest) {
  const ArgReader reader("min or max", args, {"case_sensitive", "attribute"});
  const std::vector<Value> items = in.iterate(input);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = sort_key(in, items[0], reader.get(1), reader.truthy(0, false));
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = sort_key(in, items[i], reader.get(1), reader.truthy(0, false));
    if (largest ? less(best_key, key) : less(key, best_key)) {
      best = i;
      best_key = std::move(key);
    }
  }
  return items[best];
}

Value sum(Interpreter& in, const Value& input, const CallArgs& args) {
  const ArgReader reader("sum", args, {"attribute", "start"});
  Value total = reader.get(1) == nullptr ? Value(int64_t{0}) : *reader.get(1);
  if (total.is_text()) throw TemplateError{"sum() can't sum strings"};
  for (const Value& item : in.iterate(input)) {
    const bool has_attribute = reader.get(0) != nullptr && !reader.get(0)->is_none();
    total =
        in.binary("+", total, has_attribute ? path_value(in, item, *reader.get(0), nullptr) : item);
  }
  return total;
}

Value items(Interpreter& in, const Value& input, const CallArgs&) {
  if (input.is_undefined()) return in.make_list({});
  if (!input.is_dict()) throw TemplateError{"Can only get item pairs from a mapping."};
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.as_dict().items)
    pairs.push_back(in.make_list({key, value}, true));
  return in.make_list(std::move(pairs));
}

Value dictsort(Interpreter& in, const Value& input, const CallArgs& args) {
  const ArgReader reader("dictsort", args, {"case_sensitive", "by", "reverse"});
  if (!input.is_dict())
    throw TemplateError{fmt::format("'{}' object has no attribute 'items'", input.type_name())};
  const std::string by = reader.get(1) == nullptr ? "key" : reader.text(1).bytes;
  if (by != "key" && by != "value")
    throw TemplateError{"You can only sort by either 'key' or 'value'"};
  const Value position(by == "key" ? int64_t{0} : int64_t{1});
  const Value pairs = items(in, input, {});
  return in.make_list(
      sorted(in, pairs.items(), &position, reader.truthy(0, false), reader.truthy(2, false)));
}

Value reverse(Interpreter& in, const Value& input, const CallArgs&) {
  std::vector<Value> out = in.iterate(input);
  std::ranges::reverse(out);
  if (!input.is_text()) return in.make_list(std::move(out));
  Text text;
  for (const Value& c : out) text.append(c.as_text());
  return in.make_text(std::move(text));
}

Value indent(Interpreter& in, const Value& input, const CallArgs& args) {
  const ArgReader reader("indent", args, {"width", "first", "blank"});
  const bool by_text = reader.get(0) != nullptr && reader.get(0)->is_text();
  const std::string pad =
      by_text ? reader.text(0).bytes
              : std::string(static_cast<size_t>(std::clamp<int64_t>(reader.integer(0, 4), 0, 256)),
                            ' ');
  Text text = text_of(in, input);
  text.append("\n");  // as in Jinja2: a text that ends with a newline keeps it
  const std::vector<Text> lines = split_lines(text, false);
  in.charge(lines.size() * (pad.size() / kBytesPerWorkUnit + 1));
  Text out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    const bool padded =
        i == 0 ? reader.truthy(1, false) : reader.truthy(2, false) || !lines[i].bytes.empty();
    if (padded) out.append(pad);
    out.append(lines[i]);
  }
  return in.make_text(std::move(out));
}

Value string(Interpreter& in, const Value& input, const CallArgs&) {
  return input.is_text() ? input : in.make_text(text_of(in, input));
}

Value attr(Interpreter& in, const Value& input, const CallArgs& args) {
  const ArgReader reader("attr", args, {"name"});
  if (input.is_dict() && bound_method(input, reader.text(0).bytes).is_undefined())
    return Value::undefined(reader.text(0).bytes);  // attributes only, no elements
  return in.attribute(input, reader.text(0).bytes);
}

Value word_count(Interpreter& in, const Value& input, const CallArgs&) {
  int64_t count = 0;
  bool inside = false;
  const Text text = text_of(in, input);
  for (size_t pos = 0; pos < text.bytes.size();) {
    const bool word = is_word_char(next_char(text.bytes, pos));
    if (word && !inside) ++count;
    inside = word;
  }
  return Value(count);
}

Value batch(Interpreter& in, const Value& input, const CallArgs& args) {
  const ArgReader reader("batch", args, {"linecount", "fill_with"});
  (void)reader.need(0);
  const int64_t size = reader.integer(0, 1);
  if (size < 1) throw TemplateError{"batch(): the size must be at least 1"};
  std::vector<Value> out;
  std::vector<Value> line;
  for (const Value& item : in.iterate(input)) {
    if (static_cast<int64_t>(line.size()) == size)
      out.push_back(in.make_list(std::exchange(line, {})));
    line.push_back(item);
  }
  if (line.empty()) return in.make_list(std::move(out));
  const bool fill = reader.get(1) != nullptr && !reader.get(1)->is_none();
  while (fill && static_cast<int64_t>(line.size()) < size) {
    in.charge(1);
    line.push_back(*reader.get(1));
  }
  out.push_back(in.make_list(std::move(line)));
  return in.make_list(std::move(out));
}

struct NamedFilter {
  std::string_view name;
  FilterFn filter;
};

constexpr NamedFilter kFilters[] = {
    {"upper",
     [](Interpreter& in, const Value& v, const CallArgs&) { return cased(in, v, Case::kUpper); }},
    {"lower",
     [](Interpreter& in, const Value& v, const CallArgs&) { return cased(in, v, Case::kLower); }},
    {"capitalize", [](Interpreter& in, const Value& v,
                      const CallArgs&) { return cased(in, v, Case::kCapitalized); }},
    {"title", [](Interpreter& in, const Value& v,
                 const CallArgs&) { return cased(in, v, Case::kWordStarts); }},
    {"trim", &trim},
    {"length", &length},
    {"count", &length},
    {"join", &join},
    {"first", &first},
    {"last", &last},
    {"default", &default_value},
    {"d", &default_value},
    {"replace", &replace_filter},
    {"tojson", &tojson},
    {"list", &list},
    {"map", &map},
    {"select", [](Interpreter& in, const Value& v,
                  const CallArgs& a) { return choose(in, v, a, false, true); }},
    {"reject", [](Interpreter& in, const Value& v,
                  const CallArgs& a) { return choose(in, v, a, false, false); }},
    {"selectattr", [](Interpreter& in, const Value& v,
                      const CallArgs& a) { return choose(in, v, a, true, true); }},
    {"rejectattr", [](Interpreter& in, const Value& v,
                      const CallArgs& a) { return choose(in, v, a, true, false); }},
    {"unique", &unique},
    {"items", &items},
    {"dictsort", &dictsort},
    {"sort", &sort},
    {"reverse", &reverse},
    {"min",
     [](Interpreter& in, const Value& v, const CallArgs& a) { return extreme(in, v, a, false); }},
    {"max",
     [](Interpreter& in, const Value& v, const CallArgs& a) { return extreme(in, v, a, true); }},
    {"sum", &sum},
    {"indent", &indent},
    {"int", &filter_int},
    {"float", &filter_float},
    {"abs", &filter_abs},
    {"round", &filter_round},
    {"string", &string},
    {"safe", &string},
    {"attr", &attr},
    {"wordcount", &word_count},
    {"batch", &batch},
};

}  // namespace

FilterFn find_filter(std::string_view name) {
  for (const NamedFilter& entry : kFilters)
    if (entry.name == name) return entry.filter;
  return nullptr;
}

}  // namespace hs::jinja
