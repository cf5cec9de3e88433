// The `messages` of a request: roles, and content as a string or as parts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/chat_request.h"
#include "api/object_reader.h"

namespace hs {

// Reads `messages` of `body` into input.messages and the pictures' sources. Errors go to `body`.
void read_messages(ObjectReader& body, const RequestLimits& limits, ChatInput& input,
                   std::vector<ImageSource>& images);

}  // namespace hs
