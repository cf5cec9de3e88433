#include "text/tool_format.h"

namespace hs {

const ToolFormat& hermes_tools() {
  static constexpr ToolFormat kFormat{.name = "hermes",
                                      .opening = "<tool_call>",
                                      .closing = "</tool_call>",
                                      .control = "",
                                      .arguments = "arguments",
                                      .only_first = false,
                                      .many = true};
  return kFormat;
}

// Its template refuses a conversation with two calls in one answer.
const ToolFormat& llama_tools() {
  static constexpr ToolFormat kFormat{.name = "llama",
                                      .opening = "",
                                      .closing = "",
                                      .control = "<|python_tag|>",
                                      .arguments = "parameters",
                                      .only_first = true,
                                      .many = false};
  return kFormat;
}

const ToolFormat* tool_format_of(std::string_view chat_template) {
  const auto has = [&](std::string_view word) {
    return chat_template.find(word) != std::string_view::npos;
  };
  // Some families put other things between the same tags.
  if (has("<tool_call>") && has("arguments") && !has("<function=") && !has("<arg_key>"))
    return &hermes_tools();
  if (has("\"parameters\": ") && (has("ipython") || has("<|python_tag|>"))) return &llama_tools();
  return nullptr;
}

}  // namespace hs
