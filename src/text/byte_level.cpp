#include "text/byte_level.h"

#include <array>

#include "text/unicode.h"

namespace hs {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Every stand-in lies below U+0144, so one or two bytes of UTF-8 hold it.
struct Tables {
  std::array<std::array<char, 2>, 256> utf8{};
  std::array<uint8_t, 256> length{};
  std::array<int16_t, 0x144> byte{};

  constexpr Tables() {
    byte.fill(-1);
    unsigned next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      const unsigned c = stands_for_itself(b) ? b : next++;
      byte[c] = static_cast<int16_t>(b);
      length[b] = c < 0x80 ? 1 : 2;
      utf8[b][0] = static_cast<char>(c < 0x80 ? c : 0xC0U | (c >> 6));
      utf8[b][1] = static_cast<char>(0x80U | (c & 0x3FU));
    }
  }
};
constexpr Tables kTables;

}  // namespace

std::string_view byte_stand_in(uint8_t byte) {
  return {kTables.utf8[byte].data(), kTables.length[byte]};
}

std::optional<uint8_t> stand_in_byte(char32_t c) {
  if (c >= kTables.byte.size() || kTables.byte[c] < 0) return std::nullopt;
  return static_cast<uint8_t>(kTables.byte[c]);
}

std::string stand_in_bytes(std::string_view token) {
  std::string bytes;
  for (size_t pos = 0; pos < token.size();) {
    const auto byte = stand_in_byte(next_char(token, pos));
    if (!byte) return std::string(token);
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

}  // namespace hs
