// GPT-2's printable stand-ins for bytes: 188 printable Latin-1 characters stand for themselves, the
// other 68 bytes for U+0100 and up, in order. (Radford et al. 2019, encoder.py bytes_to_unicode.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hs {

// The stand-in of a byte, as UTF-8.
std::string_view byte_stand_in(uint8_t byte);
// The byte that a character stands for.
std::optional<uint8_t> stand_in_byte(char32_t c);
// The bytes of a token: what its characters stand for, or the token's own bytes where one stands
// for none.
std::string stand_in_bytes(std::string_view token);

}  // namespace hs
