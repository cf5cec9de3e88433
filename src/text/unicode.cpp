#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/check.h"

namespace hs {
namespace {

unsigned byte_at(std::string_view text, size_t pos) {
  return static_cast<unsigned char>(text[pos]);
}

bool is_continuation(unsigned byte) {
  return (byte & 0xC0U) == 0x80U;
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Length of a character by its first byte, and the range its second byte must lie in; length 0: no
// first byte.
struct LeadByte {
  size_t length;
  unsigned second_min;
  unsigned second_max;
};

LeadByte lead_byte(unsigned byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // surrogates are not characters
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

char32_t next_char(std::string_view text, size_t& pos) {
  const unsigned first = byte_at(text, pos);
  const size_t length = utf8_length(text, pos);
  char32_t c = length == 1   ? first
               : length == 2 ? first & 0x1FU
               : length == 3 ? first & 0x0FU
                             : first & 0x07U;
  for (size_t i = 1; i < length; ++i) c = (c << 6) | (byte_at(text, pos + i) & 0x3FU);
  pos += length;
  return c;
}

char32_t previous_char(std::string_view text, size_t& pos) {
  do --pos;
  while (pos > 0 && is_continuation(byte_at(text, pos)));
  size_t behind = pos;
  return next_char(text, behind);
}

void append_char(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Utf8Prefix utf8_prefix(std::string_view bytes) {
  using Kind = Utf8Prefix::Kind;
  const LeadByte lead = lead_byte(byte_at(bytes, 0));
  if (lead.length == 0) return {Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Kind::kIncomplete, i};
    const unsigned byte = byte_at(bytes, i);
    const bool good =
        i == 1 ? byte >= lead.second_min && byte <= lead.second_max : is_continuation(byte);
    if (!good) return {Kind::kInvalid, i};
  }
  return {Kind::kCharacter, lead.length};
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Prefix prefix = utf8_prefix(text);
    if (prefix.kind != Utf8Prefix::Kind::kCharacter) return false;
    text.remove_prefix(prefix.bytes);
  }
  return true;
}

void append_lossy(std::string& out, std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Prefix prefix = utf8_prefix(bytes);
    const bool whole = prefix.kind == Utf8Prefix::Kind::kCharacter;
    out += whole ? bytes.substr(0, prefix.bytes) : kReplacementChar;
    bytes.remove_prefix(prefix.bytes);
  }
}

bool is_whitespace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  if (c == 0x85) return true;
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL ||
         kind == UTF8PROC_CATEGORY_ZP;
}

bool is_word_char(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return c == 0x200C || c == 0x200D;  // Join_Control belongs to \w
  }
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return c > ' ' && c < 0x7F && !(c >= '0' && c <= '9') &&
           !((c | 0x20U) >= 'a' && (c | 0x20U) <= 'z');
  switch (category(c)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

bool is_letter(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL;
}

bool is_assigned_and_visible(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return false;
    default:
      return true;
  }
}

void append_lower(std::string& out, char32_t c) {
  if (c == 0x130) {  // the one character whose lower case is two
    out += "i\xCC\x87";
    return;
  }
  append_char(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

void append_upper(std::string& out, char32_t c) {
  if (c == 0xDF) {  // sharp s
    out += "SS";
    return;
  }
  append_char(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

std::string normal_form(std::string_view text, NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t length = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
      static_cast<utf8proc_ssize_t>(text.size()), &result, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  HS_CHECK(length >= 0);  // the text is valid UTF-8
  return std::string(reinterpret_cast<const char*>(result), static_cast<size_t>(length));
}

}  // namespace hs
