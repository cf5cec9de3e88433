// UTF-8 and the few Unicode properties that tokenizers need (data from utf8proc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hs {

inline constexpr std::string_view kReplacementChar = "\xEF\xBF\xBD";  // U+FFFD

// Bytes of the character that starts at text[pos]. REQUIRES: text is valid UTF-8, pos at a
// character.
inline size_t utf8_length(std::string_view text, size_t pos) {
  const auto byte = static_cast<unsigned char>(text[pos]);
  return byte < 0x80 ? 1U : byte < 0xE0 ? 2U : byte < 0xF0 ? 3U : 4U;
}

// The character at text[pos]; pos moves behind it. REQUIRES: text is valid UTF-8, pos at a
// character.
char32_t next_char(std::string_view text, size_t& pos);
// The character that ends at text[pos]; pos moves to its start. REQUIRES: valid UTF-8, pos > 0.
char32_t previous_char(std::string_view text, size_t& pos);
void append_char(std::string& out, char32_t c);

bool is_ascii(std::string_view text);
bool is_valid_utf8(std::string_view text);

// What starts at the first byte of a byte string.
struct Utf8Prefix {
  enum class Kind {
    kCharacter,   // a whole character
    kInvalid,     // bytes that no continuation can make valid: one U+FFFD
    kIncomplete,  // a character whose end is missing
  } kind = Kind::kCharacter;
  size_t bytes = 0;  // how many bytes it takes
};
// REQUIRES: bytes is not empty. Invalid bytes are grouped as the Unicode standard recommends
// (maximal subparts), which is also what Rust's from_utf8_lossy does.
Utf8Prefix utf8_prefix(std::string_view bytes);
// Appends `bytes` to `out`, each invalid or incomplete part as one U+FFFD.
void append_lossy(std::string& out, std::string_view bytes);

bool is_whitespace(char32_t c);   // Unicode's White_Space
bool is_word_char(char32_t c);    // \w of a regex: letters, marks, decimal digits, connectors
bool is_punctuation(char32_t c);  // category P, and ASCII punctuation
bool is_number(char32_t c);       // category N
bool is_letter(char32_t c);       // category L
bool is_upper(char32_t c);
bool is_lower(char32_t c);
// Not a control, format, surrogate, private or unassigned character.
bool is_assigned_and_visible(char32_t c);
// Appends the full lower-case mapping.
void append_lower(std::string& out, char32_t c);
// Appends the upper-case mapping (of sharp s both letters, of others the simple mapping).
void append_upper(std::string& out, char32_t c);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
// REQUIRES: text is valid UTF-8.
std::string normal_form(std::string_view text, NormalForm form);

}  // namespace hs
