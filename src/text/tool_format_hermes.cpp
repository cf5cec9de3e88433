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

}  // namespace hs
