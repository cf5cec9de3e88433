#include "api/tool_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/json_writer.h"
#include "api/message_parts.h"

namespace hs {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kFunctionsMax = 128;
constexpr std::string_view kNoParameters =
    R"({"type":"object","properties":{},"additionalProperties":false})";

std::string dumped(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void refuse_type(ObjectReader& object, const std::string& type) {
  object.fail_field("type",
                    fmt::format("'{}' is '{}'; only functions are supported.", object.param("type"),
                                shown_word(type)),
                    ErrorKind::kUnsupported, "unsupported_value");
}

// Whether it says that it is a function; complains otherwise.
bool is_function(ObjectReader& object) {
  const std::string* type = object.string("type");
  if (type == nullptr)
    object.fail_field("type", fmt::format("'{}' is missing.", object.param("type")));
  else if (*type != "function")
    refuse_type(object, *type);
  return !object.failed();
}

class ToolReader {
 public:
  ToolReader(ObjectReader& body, ToolShape shape, ToolFields& tools)
      : body_(body), shape_(shape), tools_(tools) {}

  void read_list(const json& list, const ordered_json& ordered) {
    if (!list.is_array())
      return body_.fail_field("tools", "'tools' must be a list.", ErrorKind::kInvalidArgument,
                              "invalid_type");
    if (list.size() > kFunctionsMax)
      return body_.fail_field("tools",
                              fmt::format("'tools' has more than {} functions.", kFunctionsMax));
    for (size_t i = 0; i < list.size() && !body_.failed(); ++i) {
      const Status read = read_tool(list[i], ordered, i);
      if (!read) body_.fail_with(read.error());
    }
  }

  void read_choice() {
    const json* choice = body_.any("tool_choice");
    if (choice == nullptr) return;
    if (choice->is_string())
      read_word(choice->get_ref<const std::string&>());
    else if (choice->is_object())
      read_object(*choice);
    else
      body_.fail_field("tool_choice", "'tool_choice' must be a string or an object.",
                       ErrorKind::kInvalidArgument, "invalid_type");
    if (body_.failed()) return;
    tools_.choice_json = choice->dump(-1, ' ', false, json::error_handler_t::replace);
    if (!tools_.any() && tools_.calls == ToolGrammar::Calls::kAlways)
      body_.fail_field("tool_choice", "'tool_choice' asks for a call, but there are no 'tools'.");
  }

 private:
  Status read_tool(const json& value, const ordered_json& ordered, size_t i) {
    const std::string place = fmt::format("tools[{}]", i);
    if (!value.is_object())
      return fail(ErrorKind::kInvalidArgument, fmt::format("'{}' must be an object.", place),
                  "invalid_type", place);
    ObjectReader tool(value, place);
    if (!is_function(tool)) return tool.status();
    const ordered_json* in_order = ordered.is_array() && i < ordered.size() ? &ordered[i] : nullptr;
    if (shape_ == ToolShape::kResponse) return read_function(tool, value, in_order);
    const json* function = tool.any("function");
    if (function == nullptr || !function->is_object()) {
      tool.fail_field("function", fmt::format("'{}' must be an object.", tool.param("function")));
      return tool.status();
    }
    in_order = in_order != nullptr && in_order->is_object() && in_order->contains("function")
                   ? &(*in_order)["function"]
                   : nullptr;
    ObjectReader fields(*function, place + ".function");
    return read_function(fields, *function, in_order);
  }

  Status read_function(ObjectReader& fields, const json& value, const ordered_json* in_order) {
    ToolFields::Function function;
    function.param = fields.param("parameters");
    const std::string* name = fields.string("name");
    if (name == nullptr || !is_form_name(*name))
      fields.fail_field("name", fmt::format("'{}' must have 1 to {} letters, digits, _ or -.",
                                            fields.param("name"), kFormNameBytesMax));
    else
      function.name = *name;
    if (has_function(function.name))
      fields.fail_field(
          "name", fmt::format("'{}' is the name of an earlier function.", fields.param("name")));
    if (const std::string* description = fields.string("description"))
      function.description_json = json_string(*description);
    if (const auto strict = fields.boolean("strict")) function.strict = *strict ? 1 : 0;
    read_parameters(fields, value, in_order, function);
    tools_.functions.push_back(std::move(function));
    return fields.status();
  }

  static void read_parameters(ObjectReader& fields, const json& value, const ordered_json* in_order,
                              ToolFields::Function& function) {
    const json* parameters = fields.any("parameters");
    if (parameters == nullptr) return;
    if (!parameters->is_object())
      return fields.fail_field("parameters",
                               fmt::format("'{}' must be a JSON Schema.", function.param),
                               ErrorKind::kInvalidArgument, "invalid_type");
    const auto type = parameters->find("type");
    if (type != parameters->end() && *type != "object")
      return fields.fail_field("parameters.type",
                               fmt::format("'{}.type' must be \"object\".", function.param));
    const bool has =
        in_order != nullptr && in_order->is_object() && in_order->contains("parameters");
    function.parameters =
        has ? dumped((*in_order)["parameters"]) : dumped(ordered_json(value["parameters"]));
  }

  void read_word(const std::string& word) {
    if (word == "none")
      tools_.calls = ToolGrammar::Calls::kNever;
    else if (word == "required")
      tools_.calls = ToolGrammar::Calls::kAlways;
    else if (word != "auto")
      body_.fail_field("tool_choice",
                       "'tool_choice' must be none, auto, required or an object that names a "
                       "function or allowed tools.");
  }

  void read_object(const json& value) {
    ObjectReader choice(value, "tool_choice");
    const std::string* type = choice.string("type");
    if (type != nullptr && *type == "allowed_tools") {
      read_allowed(choice, value);
    } else if (is_function(choice)) {
      const std::string name = name_in(choice);
      if (!choice.failed()) allow_only({name}, choice);
      tools_.calls = ToolGrammar::Calls::kAlways;
      tools_.many = false;
    }
    if (choice.failed()) body_.fail_with(choice.status().error());
  }

  // {"type": "allowed_tools", "mode", "tools"}, in chats a level deeper.
  void read_allowed(ObjectReader& choice, const json& value) {
    const json* fields_json = &value;
    if (shape_ == ToolShape::kChat) fields_json = choice.any("allowed_tools");
    if (fields_json == nullptr || !fields_json->is_object())
      return choice.fail_field("allowed_tools", "'tool_choice.allowed_tools' must be an object.");
    ObjectReader fields(*fields_json,
                        shape_ == ToolShape::kChat ? choice.param("allowed_tools") : "tool_choice");
    const std::string* mode = fields.string("mode");
    if (mode == nullptr || (*mode != "auto" && *mode != "required"))
      fields.fail_field("mode",
                        fmt::format("'{}' must be auto or required.", fields.param("mode")));
    else if (*mode == "required")
      tools_.calls = ToolGrammar::Calls::kAlways;
    const json* list = fields.any("tools");
    if (list == nullptr || !list->is_array() || list->empty())
      fields.fail_field("tools", fmt::format("'{}' must be a list with at least one tool.",
                                             fields.param("tools")));
    std::vector<std::string> names;
    for (size_t i = 0; !fields.failed() && i < list->size(); ++i) {
      const json& one = (*list)[i];
      const std::string place = fmt::format("{}[{}]", fields.param("tools"), i);
      if (!one.is_object()) {
        fields.fail_field(fmt::format("tools[{}]", i),
                          fmt::format("'{}' must be an object.", place));
        break;
      }
      ObjectReader tool(one, place);
      if (is_function(tool)) names.push_back(name_in(tool));
      if (tool.failed()) fields.fail_with(tool.status().error());
    }
    if (!fields.failed()) allow_only(names, fields);
    if (fields.failed()) choice.fail_with(fields.status().error());
  }

  // The name that an object of type function gives.
  std::string name_in(ObjectReader& object) {
    const std::string* name = nullptr;
    if (shape_ == ToolShape::kResponse) {
      name = object.string("name");
    } else if (const json* function = object.any("function");
               function != nullptr && function->is_object()) {
      const auto at = function->find("name");
      if (at != function->end() && at->is_string()) name = at->get_ptr<const std::string*>();
    }
    if (name != nullptr) return *name;
    const std::string_view field = shape_ == ToolShape::kChat ? "function.name" : "name";
    object.fail_field(field, fmt::format("'{}' is missing.", object.param(field)));
    return {};
  }

  bool has_function(std::string_view name) const {
    return std::ranges::find(tools_.functions, name, &ToolFields::Function::name) !=
           tools_.functions.end();
  }

  void allow_only(const std::vector<std::string>& names, ObjectReader& object) {
    for (ToolFields::Function& function : tools_.functions)
      function.allowed = std::ranges::find(names, function.name) != names.end();
    for (const std::string& name : names) {
      if (!has_function(name))
        object.fail_with({ErrorKind::kInvalidArgument,
                          fmt::format("'tool_choice' names '{}', which is not among the 'tools'.",
                                      shown_word(name)),
                          "invalid_value", "tool_choice"});
    }
  }

  ObjectReader& body_;
  const ToolShape shape_;
  ToolFields& tools_;
};

}  // namespace

void read_tools(ObjectReader& body, std::string_view text, ToolShape shape, ToolFields& tools) {
  ToolReader reader(body, shape, tools);
  const json* list = body.any("tools");
  if (list != nullptr && !list->empty())
    reader.read_list(*list,
                     ordered_json::parse(json_part_in_order(text, {"tools"}), nullptr, false));
  else if (list != nullptr && !list->is_array())
    reader.read_list(*list, {});
  if (!body.failed()) reader.read_choice();
  tools.parallel = body.boolean("parallel_tool_calls").value_or(true);
  tools.many = tools.many && tools.parallel;
}

std::string tools_for_template(const ToolFields& tools) {
  if (!tools.any()) return {};
  return '[' +
         json_list(tools.functions,
                   [](const ToolFields::Function& function) {
                     std::string out = R"({"type":"function","function":{"name":)";
                     append_json_string(out, function.name);
                     if (!function.description_json.empty())
                       out += ",\"description\":" + function.description_json;
                     if (!function.parameters.empty())
                       out += ",\"parameters\":" + function.parameters;
                     return out + "}}";
                   }) +
         ']';
}

Result<AnswerForm> tool_form(const ToolFields& tools, const ToolFormat& format,
                             const AnswerForm& form) {
  ToolGrammar grammar;
  grammar.calls = tools.calls;
  grammar.opening = format.opening;
  grammar.closing = format.closing;
  grammar.control = format.control;
  grammar.arguments = format.arguments;
  grammar.only_first = format.only_first;
  grammar.many = format.many && tools.many;
  if (form.language && tools.calls == ToolGrammar::Calls::kNever) return form;
  if (form.language && tools.calls == ToolGrammar::Calls::kMaybe) {
    if (format.opening.empty())
      return fail(ErrorKind::kUnsupported,
                  "This model begins a call of a function as it would begin a text of this form; "
                  "use one of them, or 'tool_choice' none or required.",
                  "unsupported_value", form.param);
    grammar.form = {*form.language, form.text, form.param};
  }
  for (const ToolFields::Function& function : tools.functions) {
    if (!function.allowed || tools.calls == ToolGrammar::Calls::kNever) continue;
    grammar.functions.push_back(
        {function.name,
         function.parameters.empty() ? std::string(kNoParameters) : function.parameters,
         function.strict == 1, function.param});
  }
  return AnswerForm{Grammar::Language::kTools, grammar.to_text(), "tools"};
}

std::string tools_for_response(const ToolFields& tools) {
  return '[' +
         json_list(tools.functions,
                   [](const ToolFields::Function& function) {
                     std::string out = R"({"type":"function","name":)";
                     append_json_string(out, function.name);
                     out += ",\"description\":";
                     out += function.description_json.empty() ? "null" : function.description_json;
                     out += ",\"parameters\":";
                     out += function.parameters.empty() ? "null" : function.parameters;
                     out += ",\"strict\":";
                     out += function.strict < 0 ? "null" : function.strict == 1 ? "true" : "false";
                     return out + '}';
                   }) +
         ']';
}

}  // namespace hs
