// The parsed form of a template. Nodes are of two types, with a kind that says which of the fields
// count.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace hs::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

using FilterFn = Value (*)(Interpreter&, const Value& input, const CallArgs&);
using TestFn = bool (*)(Interpreter&, const Value& input, const CallArgs&);

struct Expr {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kList,         // items
    kTuple,        // items
    kDict,         // items: key, value, key, value ...
    kAttribute,    // items[0].name
    kSubscript,    // items[0][items[1]]
    kSlice,        // items[0][items[1]:items[2]:items[3]]; each of the last three may be null
    kCall,         // items[0](items[1..], named)
    kFilter,       // items[0] | name(items[1..], named); items[0] is null in a filter block
    kTest,         // items[0] is name(items[1..], named)
    kUnary,        // name: "-", "+", "not"
    kBinary,       // items[0] name items[1]; name: + - * / // % ** ~ and or
    kCompare,      // items[0] operators[0] items[1] operators[1] items[2] ...
    kConditional,  // items[0] if items[1] else items[2]; items[2] may be null
  } kind = Kind::kConstant;
  int line = 0;
  int depth = 1;  // of the tree below
  std::string name;
  Value constant;
  std::vector<ExprPtr> items;
  std::vector<std::pair<std::string, ExprPtr>> named;
  std::vector<std::string> operators;
  FilterFn filter = nullptr;  // of kFilter
  TestFn test = nullptr;      // of kTest
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

// What a for or set statement assigns to.
struct Target {
  enum class Kind { kName, kTuple, kNamespaceField } kind = Kind::kName;
  std::string name;
  std::string field;          // of a namespace
  std::vector<Target> parts;  // of a tuple
};

struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

struct Stmt {
  enum class Kind {
    kData,      // text
    kOutput,    // expr
    kIf,        // branches: (condition, body); otherwise
    kFor,       // for target in expr if condition: body, else otherwise
    kSet,       // target = expr
    kSetBlock,  // target = body, filtered by expr (may be null)
    kMacro,     // macro
    kCall,      // expr is the call; macro is the caller
    kFilter,    // expr (kFilter chain) of body
    kWith,      // assignments, body
    kBlock,     // body as it stands ({% generation %})
    kBreak,
    kContinue,
  } kind = Kind::kData;
  int line = 0;
  std::string text;
  ExprPtr expr;
  ExprPtr condition;
  Target target;
  std::vector<std::pair<ExprPtr, Body>> branches;
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Body body;
  Body otherwise;
  std::unique_ptr<Macro> macro;
};

}  // namespace hs::jinja
