// How a family of models writes its calls of functions.
#pragma once

#include <string_view>

namespace hs {

// A call is a JSON object {"name": ..., ARGUMENTS: {...}} behind `opening` and before `closing`.
// Formats live as long as the program.
struct ToolFormat {
  std::string_view name;
  std::string_view opening;    // "": the object itself begins the call
  std::string_view closing;    // "": its last bracket ends it
  std::string_view control;    // a control token that may come before the first call; "": none
  std::string_view arguments;  // the key of the arguments
  bool only_first = false;     // a call can only begin an answer
  bool many = true;            // an answer may hold several calls
};

// <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen2.5. What a model is asked
// for whose template knows no tools.
const ToolFormat& hermes_tools();
// {"name": ..., "parameters": {...}}: Llama 3.1 and later, one call an answer.
const ToolFormat& llama_tools();

// The format that a chat template describes; null for none that is known.
const ToolFormat* tool_format_of(std::string_view chat_template);

// Tokens that formats are made of. Where a vocabulary has them as control tokens, no text shows
// them.
constexpr std::string_view kToolMarkers[] = {"<tool_call>", "</tool_call>", "<|python_tag|>"};

}  // namespace hs
