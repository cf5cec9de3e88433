// Runs a parsed template over a context, within limits on steps, output and depth.
// Semantics: Jinja2 3.1 with the default Undefined, without autoescape, in the immutable sandbox.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"

namespace hs::jinja {

struct Limits {
  int64_t work_max = 30'000'000;             // nodes visited, plus what strings and lists cost
  size_t text_bytes_max = size_t{64} << 20;  // of one text, the output among them
  size_t items_max = 1'000'000;              // of one list
  int depth_max = 400;                       // nodes within nodes, through macros too
  int value_depth_max = 100;                 // lists within lists
  size_t value_weight_max =
      8'000'000;  // elements and text of one value, counted as often as they appear in it
};

inline constexpr size_t kBytesPerWorkUnit = 16;  // of text that cost one unit of work

struct Scope {
  std::unordered_map<std::string, Value> variables;
  std::shared_ptr<Scope> parent;
};

// One a rendering; not thread-safe. Methods throw TemplateError.
class Interpreter {
 public:
  // `body` must outlive this.
  Interpreter(const Body& body, const Limits& limits);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter();

  void set(std::string name, Value value);
  Text run();

  // For filters, tests and methods.
  void charge(size_t units);  // counts work; throws when the budget is used up
  Value make_text(Text text);
  Value make_list(std::vector<Value> items, bool tuple = false);
  Value make_dict(std::vector<std::pair<Value, Value>> items);
  Value make_namespace(std::vector<std::pair<std::string, Value>> fields);
  // Elements of a list, characters of a text, keys of a dict, nothing of undefined.
  std::vector<Value> iterate(const Value& value);
  Value attribute(const Value& object, const std::string& name);  // object.name
  Value subscript(const Value& object, const Value& key);         // object[key]
  Value call(const Value& callee, const CallArgs& args);
  Value call_macro(const Macro& macro, const std::shared_ptr<Scope>& scope, const CallArgs& args);
  Value binary(const std::string& op, const Value& left, const Value& right);
  bool contains(const Value& container, const Value& item);
  Text to_text(const Value& value);  // Python's str()

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  struct DepthGuard {
    explicit DepthGuard(Interpreter& i) : interpreter(i) {
      if (++interpreter.depth_ > interpreter.limits_.depth_max) {
        --interpreter.depth_;
        throw TemplateError{"the template is nested too deeply"};
      }
    }
    DepthGuard(const DepthGuard&) = delete;
    DepthGuard& operator=(const DepthGuard&) = delete;
    ~DepthGuard() { --interpreter.depth_; }
    Interpreter& interpreter;
  };

  Flow run_body(const Body& body);
  Flow run_stmt(const Stmt& stmt);
  Flow run_if(const Stmt& stmt);
  Flow run_for(const Stmt& stmt);
  Flow run_with(const Stmt& stmt);
  void run_call(const Stmt& stmt);
  Text capture(const Body& body);
  void emit(const Text& text);
  void assign(const Target& target, const Value& value);

  Value eval(const Expr& expr);
  Value eval_node(const Expr& expr);
  Value eval_name(const std::string& name);
  Value eval_dict(const Expr& expr);
  Value eval_slice(const Expr& expr);
  Value eval_unary(const Expr& expr);
  Value eval_binary(const Expr& expr);
  Value eval_compare(const Expr& expr);
  bool compare(const std::string& op, const Value& left, const Value& right);
  CallArgs eval_args(const Expr& expr);
  void check_container(int depth, size_t weight) const;
  Value apply_filters(const Expr& expr, const Value& input);
  Value add(const Value& left, const Value& right);
  Value repeat(const Value& value, int64_t count);
  Value format_percent(const Text& format, const Value& args);
  std::shared_ptr<Scope> captured_scope();

  const Body& body_;
  Limits limits_;
  int64_t work_left_;
  int depth_ = 0;
  std::shared_ptr<Scope> scope_;
  Text* out_ = nullptr;
  // Held to the end: a template can tie them into cycles or chains, which are cut there.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> captured_;
};

// The functions a template can call: range, namespace, dict, raise_exception. Null if there is none
// of that name.
std::shared_ptr<const Callable> find_global(std::string_view name);
// The method of a text, list or dict, bound to it; undefined if there is none.
Value bound_method(const Value& object, const std::string& name);
// strftime_now(format) at a moment, in local time.
std::shared_ptr<const Callable> make_strftime_now(int64_t unix_s);

// Arguments of a call by position or name. Throws for too many, unknown or repeated ones.
class ArgReader {
 public:
  ArgReader(std::string_view function, const CallArgs& args,
            std::initializer_list<std::string_view> parameters);
  const Value* get(size_t i) const { return values_[i]; }  // null if absent
  const Value& need(size_t i) const;
  bool truthy(size_t i, bool absent) const {
    return values_[i] == nullptr ? absent : values_[i]->truthy();
  }
  int64_t integer(size_t i, int64_t absent) const;
  const Text& text(size_t i) const;  // throws unless it is a text

 private:
  std::string_view function_;
  std::vector<std::string_view> parameters_;
  std::vector<const Value*> values_;
};

// Python's slice of a sequence of `size` elements: the indices it takes, in order.
std::vector<size_t> slice_indices(const Value* start, const Value* stop, const Value* step,
                                  size_t size);

}  // namespace hs::jinja
