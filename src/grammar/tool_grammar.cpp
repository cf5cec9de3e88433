#include "grammar/tool_grammar.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "grammar/json_parts.h"
#include "grammar/json_schema.h"

namespace hs {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kTextBytesMax = size_t{4} << 20;

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string text_at(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

bool flag_at(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_boolean() && at->get<bool>();
}

int64_t number_at(const Json& object, const char* key, int64_t max) {
  const auto at = object.find(key);
  const bool fits = at != object.end() && at->is_number_integer() && at->get<int64_t>() >= 0 &&
                    at->get<int64_t>() <= max;
  return fits ? at->get<int64_t>() : 0;
}

Result<ToolGrammar> from_text(std::string_view text) {
  const auto broken = [] { return fail(ErrorKind::kInvalidArgument, "Broken tools."); };
  if (text.size() > kTextBytesMax)
    return fail(
        ErrorKind::kInvalidArgument,
        fmt::format("The schemas of the tools have more than {} MiB.", kTextBytesMax >> 20));
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return broken();
  ToolGrammar tools;
  tools.calls = static_cast<ToolGrammar::Calls>(number_at(json, "calls", 2));
  tools.opening = text_at(json, "opening");
  tools.closing = text_at(json, "closing");
  tools.control = text_at(json, "control");
  tools.arguments = text_at(json, "arguments");
  tools.only_first = flag_at(json, "only_first");
  tools.many = flag_at(json, "many");
  if (const auto form = json.find("form"); form != json.end() && form->is_object()) {
    const auto last = static_cast<int64_t>(Language::kTools) - 1;  // no tools within tools
    tools.form = {static_cast<Language>(number_at(*form, "language", last)), text_at(*form, "text"),
                  text_at(*form, "param")};
  }
  const auto functions = json.find("functions");
  if (functions == json.end() || !functions->is_array()) return broken();
  for (const Json& one : *functions) {
    if (!one.is_object()) return broken();
    tools.functions.push_back({text_at(one, "name"), text_at(one, "parameters"),
                               flag_at(one, "strict"), text_at(one, "param")});
  }
  return tools;
}

// A complaint about a part of a request that stands at `param`.
std::unexpected<Error> at_param(Error error, const std::string& param) {
  const bool whole = error.param.empty() || error.param == "schema";
  error.param = whole ? param : fmt::format("{}.{}", param, error.param);
  return std::unexpected(std::move(error));
}

class ToolExpressions {
 public:
  ToolExpressions(ExpressionPool& pool, const ToolGrammar& tools)
      : pool_(pool), tools_(tools), parts_(pool) {}

  Result<Expr> make() {
    const Result<Expr> members =
        tools_.calls == ToolGrammar::Calls::kNever ? kNoText : members_of_all();
    if (!members) return members;
    if (tools_.calls == ToolGrammar::Calls::kAlways) return calls(*members);
    if (!tools_.form) return text_or_calls(*members);
    const Result<Expr> form = parse_language(pool_, tools_.form->language, tools_.form->text);
    if (!form) return at_param(form.error(), tools_.form->param);
    return pool_.either({*form, calls(*members)});
  }

 private:
  // What follows the first key, "name": its value, and the arguments.
  Result<Expr> members_of_all() {
    std::vector<Expr> options;
    for (const ToolGrammar::Function& function : tools_.functions) {
      const Result<Expr> arguments = arguments_of(function);
      if (!arguments) return arguments;
      options.push_back(
          pool_.sequence({parts_.constant(dumped(Json(function.name))), pool_.literal(","),
                          parts_.space(), key(tools_.arguments), *arguments}));
    }
    return pool_.either(options);
  }

  Result<Expr> arguments_of(const ToolGrammar::Function& function) {
    Result<Expr> arguments = parse_json_schema(pool_, function.parameters);
    if (!arguments && arguments.error().kind == ErrorKind::kUnsupported && !function.strict)
      return parts_.object();
    if (!arguments) return at_param(arguments.error(), function.param);
    // Of the values that the schema allows, those that are objects.
    const Expr rest = pool_.derivative(*arguments, '{');
    if (rest == kNoText)
      return at_param(
          {ErrorKind::kInvalidArgument, "The schema allows no object.", "invalid_json_schema", ""},
          function.param);
    return pool_.sequence({pool_.literal("{"), rest});
  }

  Expr key(std::string_view name) {
    return pool_.sequence(
        {parts_.constant(dumped(Json(name))), pool_.literal(":"), parts_.space()});
  }

  Expr marker(const std::string& content) {
    if (content.empty()) return kEmptyText;
    return pool_.either({pool_.literal(content), pool_.literal(kControlByte + content)});
  }

  // `{"name"`, as far as a call without a marker is told by.
  Expr bare_opening() {
    return pool_.sequence(
        {parts_.space(), pool_.literal("{"), parts_.space(), parts_.constant(R"("name")")});
  }

  // Of one call, behind the key of its name.
  Expr rest_of_call(Expr members) {
    Expr rest = pool_.sequence(
        {pool_.literal(":"), parts_.space(), members, parts_.space(), pool_.literal("}")});
    if (!tools_.closing.empty())
      rest = pool_.sequence({rest, parts_.space(), marker(tools_.closing)});
    return rest;
  }

  // Behind the marker that opens it.
  Expr call(Expr members) { return pool_.sequence({bare_opening(), rest_of_call(members)}); }

  Expr more_calls(Expr members) {
    if (!tools_.many) return kEmptyText;
    return pool_.any_number_of(
        pool_.sequence({parts_.space(), marker(tools_.opening), call(members)}));
  }

  Expr calls(Expr members) {
    return pool_.sequence({control(), marker(tools_.opening), call(members), more_calls(members)});
  }

  Expr control() {
    if (tools_.control.empty()) return kEmptyText;
    return pool_.optional(pool_.literal(kControlByte + tools_.control));
  }

  Expr text_or_calls(Expr members) {
    if (tools_.opening.empty()) {
      const Expr after = pool_.sequence({rest_of_call(members), more_calls(members)});
      const Expr text = text_up_to(pool_, bare_opening(), after);
      if (members == kNoText || tools_.control.empty()) return text;
      return pool_.either({text, pool_.sequence({pool_.literal(kControlByte + tools_.control),
                                                 bare_opening(), after})});
    }
    const Expr after = pool_.sequence({call(members), more_calls(members)});
    const Expr before = tools_.only_first ? kEmptyText : pool_.any_number_of(text_byte());
    const Expr opening =
        members == kNoText ? pool_.literal(tools_.opening) : marker(tools_.opening);
    return text_up_to(pool_, pool_.sequence({before, opening}), after);
  }

  Expr text_byte() {
    return pool_.one_of(ByteSet::range(0, static_cast<uint8_t>(kControlByte) - 1));
  }

  ExpressionPool& pool_;
  const ToolGrammar& tools_;
  JsonParts parts_;
};

// The states of a text while it may still complete a string of `opening`, each a rule.
class TextUpTo {
 public:
  TextUpTo(ExpressionPool& pool, Expr after)
      : pool_(pool),
        after_(after),
        text_(pool.any_number_of(
            pool.one_of(ByteSet::range(0, static_cast<uint8_t>(kControlByte) - 1)))) {}

  Expr make(Expr opening) {
    const Expr start = rule_of({opening, false});
    while (!open_.empty()) {
      const State state = open_.back();
      open_.pop_back();
      pool_.define(rules_.at(state), body(state));
    }
    return start;
  }

 private:
  using State = std::pair<Expr, bool>;  // what is missing; whether a control token has begun

  Expr rule_of(State state) {
    const auto [at, is_new] = rules_.try_emplace(state, kNoText);
    if (is_new) {
      at->second = pool_.new_rule();
      open_.push_back(state);
    }
    return at->second;
  }

  Expr next(State state, uint8_t byte) {
    const Expr missing = pool_.derivative(state.first, byte);
    const bool in_control = state.second || byte == static_cast<uint8_t>(kControlByte);
    if (missing == kNoText) return in_control ? kNoText : text_;
    if (pool_.has_empty(missing)) return after_;
    return rule_of({missing, in_control});
  }

  Expr body(State state) {
    std::map<Expr, ByteSet> bytes_by_next;
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      bytes_by_next[next(state, byte)].add(byte);
    }
    std::vector<Expr> options;
    if (!state.second) options.push_back(kEmptyText);
    for (const auto& [to, bytes] : bytes_by_next)
      options.push_back(pool_.sequence({pool_.one_of(bytes), to}));
    return pool_.either(options);
  }

  ExpressionPool& pool_;
  const Expr after_;
  const Expr text_;
  std::map<State, Expr> rules_;
  std::vector<State> open_;
};

}  // namespace

std::string ToolGrammar::to_text() const {
  Json json = {{"calls", static_cast<int>(calls)},
               {"opening", opening},
               {"closing", closing},
               {"control", control},
               {"arguments", arguments},
               {"many", many},
               {"only_first", only_first},
               {"functions", Json::array()}};
  if (form)
    json["form"] = {{"language", static_cast<int>(form->language)},
                    {"text", form->text},
                    {"param", form->param}};
  for (const Function& function : functions)
    json["functions"].push_back({{"name", function.name},
                                 {"parameters", function.parameters},
                                 {"strict", function.strict},
                                 {"param", function.param}});
  return dumped(json);
}

Expr text_up_to(ExpressionPool& pool, Expr opening, Expr after) {
  return TextUpTo(pool, after).make(opening);
}

Result<Expr> parse_tool_grammar(ExpressionPool& pool, std::string_view text) {
  const Result<ToolGrammar> tools = from_text(text);
  if (!tools) return std::unexpected(tools.error());
  return ToolExpressions(pool, *tools).make();
}

}  // namespace hs
