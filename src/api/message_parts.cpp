#include "api/message_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace hs {

std::string shown_word(std::string_view word) {
  constexpr size_t kBytesMax = 64;
  return std::string(word.size() <= kBytesMax ? word : std::string_view("(a long name)"));
}

void read_text_part(ObjectReader& part, std::string_view field, ChatMessage& message) {
  const std::string* text = part.string(field);
  if (text == nullptr)
    return part.fail_field(field, fmt::format("'{}' is missing.", part.param(field)));
  message.parts.push_back({ChatPart::Kind::kText, *text});
}

bool read_low_detail(ObjectReader& image) {
  const std::string* detail = image.string("detail");
  if (detail == nullptr) return false;
  constexpr std::string_view kDetails[] = {"auto", "low", "high", "original"};
  if (std::ranges::find(kDetails, *detail) == std::end(kDetails))
    image.fail_field(
        "detail", fmt::format("'{}' must be auto, low, high or original.", image.param("detail")));
  return *detail == "low";
}

void refuse_picture(ObjectReader& part, std::string_view role) {
  part.fail_field("type", fmt::format("A message of role '{}' cannot hold pictures; put them into "
                                      "a user message.",
                                      role));
}

}  // namespace hs
