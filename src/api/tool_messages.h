// Calls that a model made earlier, in conversations that clients bring along.
#pragma once

#include <string_view>

#include "text/chat_template.h"

namespace hs {

// Adds a call to an assistant's tool_calls_json. `arguments`: as the model wrote them; templates
// take them as an object where they are one, as the transformers library does.
void add_tool_call(ChatMessage& message, std::string_view id, std::string_view name,
                   std::string_view arguments);

}  // namespace hs
