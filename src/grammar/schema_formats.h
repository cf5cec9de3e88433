// Formats of JSON Schema as patterns.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hs {

// What the whole string matches (grammar/pattern_parser.h); nothing for a format that is not known.
std::optional<std::string> format_pattern(std::string_view format);

}  // namespace hs
