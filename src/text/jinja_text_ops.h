// What Python's str methods do, on texts that remember their literal spans.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace hs::jinja {

bool is_python_space(char32_t c);  // what str.isspace and str.strip take

// Strips characters of `chars`, or white space without it, from the chosen ends.
Text strip(const Text& text, const Text* chars, bool left, bool right);
// At most `count` replacements; below 0: all.
Text replace(const Text& text, std::string_view from, const Text& to, int64_t count);
// At a separator, or at runs of white space without one; at most `splits` times; below 0: all.
std::vector<Text> split(const Text& text, const std::optional<std::string_view>& separator,
                        int64_t splits);
std::vector<Text> split_from_right(const Text& text,
                                   const std::optional<std::string_view>& separator,
                                   int64_t splits);
std::vector<Text> split_lines(const Text& text, bool keep_ends);

enum class Case {
  kUpper,
  kLower,
  kCapitalized,
  kTitle,
  kWordStarts
};  // kWordStarts: Jinja's filter `title`
Text with_case(const Text& text, Case form);

size_t character_count(std::string_view text);
// Character index of a byte offset.
int64_t character_index(std::string_view text, size_t byte);

}  // namespace hs::jinja
