#include "text/tool_format.h"

namespace hs {

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
