// What the messages of chats and of responses have in common.
#pragma once

#include <string>
#include <string_view>

#include "api/object_reader.h"
#include "text/chat_template.h"

namespace hs {

// A client's word as a complaint repeats it.
std::string shown_word(std::string_view word);

// The text at `field` of a part, which must be there.
void read_text_part(ObjectReader& part, std::string_view field, ChatMessage& message);

// Whether `detail` asks for few tokens ("low"); every other value is the normal size.
bool read_low_detail(ObjectReader& image);

// Complains of a picture in a message whose role has none.
void refuse_picture(ObjectReader& part, std::string_view role);

}  // namespace hs
