// Writing JSON by hand where it is written often: the events of a stream. Always valid UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hs {

// Length of the UTF-8 character that `text` begins with, 1 to 4; 0 if it begins with none (RFC
// 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
size_t utf8_length(std::string_view text);

// Appends a quoted string. Bytes that are no UTF-8 become U+FFFD, one for each byte.
void append_json_string(std::string& out, std::string_view text);

std::string json_string(std::string_view text);

// What json_of() makes of each item, with commas between.
std::string json_list(const auto& items, const auto& json_of) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out += ',';
    out += json_of(item);
  }
  return out;
}

// Appends the shortest decimal that reads back as the same value; not a number and infinities,
// which JSON lacks, become -9999.0, as OpenAI writes an impossible log probability.
void append_json_number(std::string& out, float value);

// `text` with bytes that are no UTF-8 replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

}  // namespace hs
