// The functions that a request lets the model call: tools, tool_choice and parallel_tool_calls of
// chats and of responses. Reference: https://platform.openai.com/docs/guides/function-calling
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/format_fields.h"
#include "api/object_reader.h"
#include "base/status.h"
#include "grammar/tool_grammar.h"
#include "text/tool_format.h"

namespace hs {

struct ToolFields {
  struct Function {
    std::string name;
    std::string description_json;  // a string, or "" where none was given
    std::string parameters;  // JSON Schema, its members in the client's order; "" = none given
    int8_t strict = -1;      // -1: not said
    bool allowed = true;     // tool_choice leaves it in
    std::string param;       // "tools[0].function.parameters"
  };
  std::vector<Function> functions;
  ToolGrammar::Calls calls = ToolGrammar::Calls::kMaybe;  // when there are functions
  bool many = true;                                       // more than one call an answer
  std::string choice_json = R"("auto")";                  // as it came
  bool parallel = true;                                   // as it came

  bool any() const { return !functions.empty(); }
  bool may_call() const { return any() && calls != ToolGrammar::Calls::kNever; }
};

// How the two APIs write a function: below "function", or beside the type.
enum class ToolShape { kChat, kResponse };

// `text`: the whole body as it came, because the order of a schema's properties counts. Errors go
// to `body`.
void read_tools(ObjectReader& body, std::string_view text, ToolShape shape, ToolFields& tools);

// ChatInput::tools_json; "" for no tools.
std::string tools_for_template(const ToolFields& tools);

// Errors: kInvalidArgument where the format cannot tell a call from a text of this form.
Result<AnswerForm> tool_form(const ToolFields& tools, const ToolFormat& format,
                             const AnswerForm& form);

// What a Response object repeats: a list of FunctionTool.
std::string tools_for_response(const ToolFields& tools);

}  // namespace hs
