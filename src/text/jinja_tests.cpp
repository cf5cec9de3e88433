// The tests of a template: `value is name(arguments)`.
#include <fmt/format.h>

#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"
#include "text/unicode.h"

namespace hs::jinja {
namespace {

const Value& argument(const CallArgs& args) {
  if (args.positional.size() != 1 || !args.named.empty())
    throw TemplateError{"a test takes one argument here"};
  return args.positional[0];
}

int64_t integer(const Value& value) {
  if (!value.is_number() || value.is_float())
    throw TemplateError{fmt::format("an integer is needed, not '{}'", value.type_name())};
  return value.as_int();
}

bool is_multiple(int64_t value, int64_t of) {
  if (of == 0) throw TemplateError{"division by zero"};
  return of == -1 || value % of == 0;
}

bool is_sequence(const Value& value) {
  return value.is_text() || value.is_list() || value.is_dict() || value.is_undefined();
}

// Has letters with case, none of the other case.
bool only_case(Interpreter& in, const Value& value, bool upper) {
  bool found = false;
  const Text text = in.to_text(value);
  for (size_t pos = 0; pos < text.bytes.size();) {
    const char32_t c = next_char(text.bytes, pos);
    if (upper ? is_lower(c) : is_upper(c)) return false;
    found = found || (upper ? is_upper(c) : is_lower(c));
  }
  return found;
}

bool same(const Value& a, const Value& b) {
  const bool singletons = (a.is_none() && b.is_none()) || (a.is_bool() && b.is_bool()) ||
                          (a.is_int() && b.is_int()) || (a.is_text() && b.is_text()) ||
                          (a.is_namespace() && b.is_namespace());
  return singletons && equal(a, b);
}

bool test_equal(Interpreter&, const Value& v, const CallArgs& a) {
  return equal(v, argument(a));
}
bool test_not_equal(Interpreter&, const Value& v, const CallArgs& a) {
  return !equal(v, argument(a));
}
bool test_less(Interpreter&, const Value& v, const CallArgs& a) {
  return less(v, argument(a));
}
bool test_greater(Interpreter&, const Value& v, const CallArgs& a) {
  return less(argument(a), v);
}
bool test_less_equal(Interpreter&, const Value& v, const CallArgs& a) {
  return less(v, argument(a)) || equal(v, argument(a));
}
bool test_greater_equal(Interpreter&, const Value& v, const CallArgs& a) {
  return less(argument(a), v) || equal(v, argument(a));
}

struct NamedTest {
  std::string_view name;
  TestFn test;
};

constexpr NamedTest kTests[] = {
    {"defined", [](Interpreter&, const Value& v, const CallArgs&) { return !v.is_undefined(); }},
    {"undefined", [](Interpreter&, const Value& v, const CallArgs&) { return v.is_undefined(); }},
    {"none", [](Interpreter&, const Value& v, const CallArgs&) { return v.is_none(); }},
    {"string", [](Interpreter&, const Value& v, const CallArgs&) { return v.is_text(); }},
    {"mapping", [](Interpreter&, const Value& v, const CallArgs&) { return v.is_dict(); }},
    {"sequence", [](Interpreter&, const Value& v, const CallArgs&) { return is_sequence(v); }},
    {"iterable",
     [](Interpreter&, const Value& v, const CallArgs&) { return is_sequence(v) || v.is_loop(); }},
    {"number", [](Interpreter&, const Value& v, const CallArgs&) { return v.is_number(); }},
    {"integer", [](Interpreter&, const Value& v, const CallArgs&) { return v.is_int(); }},
    {"float", [](Interpreter&, const Value& v, const CallArgs&) { return v.is_float(); }},
    {"boolean", [](Interpreter&, const Value& v, const CallArgs&) { return v.is_bool(); }},
    {"true",
     [](Interpreter&, const Value& v, const CallArgs&) { return v.is_bool() && v.as_bool(); }},
    {"false",
     [](Interpreter&, const Value& v, const CallArgs&) { return v.is_bool() && !v.as_bool(); }},
    {"callable", [](Interpreter&, const Value& v, const CallArgs&) { return v.is_callable(); }},
    {"equalto", &test_equal},
    {"eq", &test_equal},
    {"==", &test_equal},
    {"ne", &test_not_equal},
    {"!=", &test_not_equal},
    {"lt", &test_less},
    {"<", &test_less},
    {"lessthan", &test_less},
    {"gt", &test_greater},
    {">", &test_greater},
    {"greaterthan", &test_greater},
    {"le", &test_less_equal},
    {"<=", &test_less_equal},
    {"ge", &test_greater_equal},
    {">=", &test_greater_equal},
    {"in", [](Interpreter& in, const Value& v,
              const CallArgs& a) { return in.contains(argument(a), v); }},
    {"sameas",
     [](Interpreter&, const Value& v, const CallArgs& a) { return same(v, argument(a)); }},
    {"odd",
     [](Interpreter&, const Value& v, const CallArgs&) { return !is_multiple(integer(v), 2); }},
    {"even",
     [](Interpreter&, const Value& v, const CallArgs&) { return is_multiple(integer(v), 2); }},
    {"divisibleby",
     [](Interpreter&, const Value& v, const CallArgs& a) {
       return is_multiple(integer(v), integer(argument(a)));
     }},
    {"upper",
     [](Interpreter& in, const Value& v, const CallArgs&) { return only_case(in, v, true); }},
    {"lower",
     [](Interpreter& in, const Value& v, const CallArgs&) { return only_case(in, v, false); }},
};

}  // namespace

TestFn find_test(std::string_view name) {
  for (const NamedTest& entry : kTests)
    if (entry.name == name) return entry.test;
  return nullptr;
}

}  // namespace hs::jinja
