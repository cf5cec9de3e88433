// Conversations with tools, for models whose chat template knows none: the tools are described in
// the system turn, and calls and answers are written into the turns, in the words that Hermes and
// Qwen2.5 are trained with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat_template.h"

namespace hs {

// Messages without tool_calls and without the role tool; those of one call's answers are one user
// turn. `takes_system`: whether the template has a system turn, else the first user turn begins
// with the description. Errors: kInvalidArgument for JSON that is none.
Result<std::vector<ChatMessage>> with_tools_as_text(const ChatInput& input, bool takes_system);

// Compact JSON to JSON as Python's json.dumps writes it, with a blank behind commas and colons.
std::string spaced_json(std::string_view json);

}  // namespace hs
