#include "text/tool_format.h"

namespace hs {

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

}  // namespace hs
