// Values of the template language: Python's, as far as templates see them, and texts that remember
// what a user wrote.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/tokenizer.h"

namespace hs::jinja {

// A failure of the template or of one of its limits; caught where the template is parsed or
// rendered.
struct TemplateError {
  std::string message;
  int line = 0;  // 0: unknown
};

// A text and the spans of it that stem from message texts.
struct Text {
  std::string bytes;
  std::vector<TextSpan> literal;  // sorted, apart from each other

  Text() = default;
  explicit Text(std::string_view text, bool is_literal = false) { append(text, is_literal); }
  void append(std::string_view text, bool is_literal = false);
  void append(const Text& other);
  Text slice(size_t begin, size_t end) const;
  bool literal_at(size_t pos) const;
};

class Value;
struct List;
struct Dict;
struct Namespace;
struct Loop;
class Callable;

struct Undefined {
  std::shared_ptr<const std::string> name;  // what was looked for, for messages; may be null
};
struct None {};

// Containers are immutable, so values are shared freely; only namespaces change.
class Value {
 public:
  using TextPtr = std::shared_ptr<const Text>;
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<const Dict>;

  Value() = default;  // undefined
  explicit Value(None) : data_(None{}) {}
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(TextPtr value) : data_(std::move(value)) {}
  explicit Value(ListPtr value) : data_(std::move(value)) {}
  explicit Value(DictPtr value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<Namespace> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<Loop> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Callable> value) : data_(std::move(value)) {}
  static Value undefined(std::string_view name);
  static Value text(std::string_view text) { return Value(std::make_shared<const Text>(text)); }

  bool is_undefined() const { return holds<Undefined>(); }
  bool is_none() const { return holds<None>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_int() const { return holds<int64_t>(); }
  bool is_float() const { return holds<double>(); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_text() const { return holds<TextPtr>(); }
  bool is_list() const { return holds<ListPtr>(); }  // a list or a tuple
  bool is_tuple() const;
  bool is_dict() const { return holds<DictPtr>(); }
  bool is_namespace() const { return holds<std::shared_ptr<Namespace>>(); }
  bool is_loop() const { return holds<std::shared_ptr<Loop>>(); }
  bool is_callable() const { return holds<std::shared_ptr<const Callable>>(); }

  // REQUIRES: the value is of that kind.
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const {
    return is_bool() ? static_cast<int64_t>(as_bool()) : std::get<int64_t>(data_);
  }
  double as_float() const {
    return is_float() ? std::get<double>(data_) : static_cast<double>(as_int());
  }
  const Text& as_text() const { return *std::get<TextPtr>(data_); }
  std::string_view bytes() const { return as_text().bytes; }
  const std::vector<Value>& items() const;  // of a list
  const Dict& as_dict() const { return *std::get<DictPtr>(data_); }
  const std::shared_ptr<Namespace>& as_namespace() const {
    return std::get<std::shared_ptr<Namespace>>(data_);
  }
  const Loop& as_loop() const { return *std::get<std::shared_ptr<Loop>>(data_); }
  const Callable& as_callable() const { return *std::get<std::shared_ptr<const Callable>>(data_); }

  bool truthy() const;
  int depth() const;                   // nesting of containers
  size_t weight() const;               // about what it costs to go through the whole of it
  std::string_view type_name() const;  // Python's
  std::string_view undefined_name() const;

 private:
  template <typename T>
  bool holds() const {
    return std::holds_alternative<T>(data_);
  }
  std::variant<Undefined, None, bool, int64_t, double, TextPtr, ListPtr, DictPtr,
               std::shared_ptr<Namespace>, std::shared_ptr<Loop>, std::shared_ptr<const Callable>>
      data_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;
  size_t weight = 1;
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in order of insertion
  int depth = 1;
  size_t weight = 1;
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> fields;
};

// The `loop` of a for statement.
struct Loop {
  std::shared_ptr<const std::vector<Value>> items;
  size_t index0 = 0;
  int64_t depth0 = 0;  // for statements around it in the same recursion: always 0 here
  mutable std::vector<Value> last_changed;  // of loop.changed()
  mutable bool has_changed = false;
};

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Interpreter;

class Callable {
 public:
  virtual ~Callable() = default;
  virtual Value call(Interpreter& interpreter, const CallArgs& args) const = 0;
};

// Python's ==. Containers compare element by element.
bool equal(const Value& a, const Value& b);
// Python's <; TemplateError for kinds that have no order.
bool less(const Value& a, const Value& b);

}  // namespace hs::jinja
