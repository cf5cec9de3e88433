// Data URLs (RFC 2397) and forgiving base64 (RFC 4648 sections 4 and 5).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string>

#include "media/image.h"

namespace hs {
namespace {

constexpr std::string_view kForm = "data:image/png;base64,...";
constexpr std::string_view kSpace = " \t\r\n\f\v";

std::unexpected<Error> invalid_url(std::string message) {
  return fail(ErrorKind::kInvalidArgument, std::move(message), "invalid_image_url");
}
std::unexpected<Error> too_many_bytes(size_t bytes_max) {
  return fail(ErrorKind::kTooLarge,
              fmt::format("The image has more than the {} bytes that are accepted.", bytes_max),
              "image_too_large");
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool starts_with_any_case(std::string_view text, std::string_view lower_case) {
  if (text.size() < lower_case.size()) return false;
  for (size_t i = 0; i < lower_case.size(); ++i)
    if (lower(text[i]) != lower_case[i]) return false;
  return true;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// 6-bit values, pre-shifted for each of the four places of a group, so that a group is three ORs.
// Anything that is no digit sets kBad, which lies above the 24 bits of a group.
constexpr uint32_t kBad = 1U << 31;
constexpr uint32_t kNoDigit = 64;
using DigitTable = std::array<uint32_t, 256>;

constexpr uint32_t digit_of(unsigned char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26U;
  if (c >= '0' && c <= '9') return c - '0' + 52U;
  if (c == '+' || c == '-') return 62;
  if (c == '/' || c == '_') return 63;
  return kNoDigit;
}
constexpr std::array<DigitTable, 4> make_tables() {
  std::array<DigitTable, 4> tables{};
  for (unsigned c = 0; c < 256; ++c) {
    const uint32_t digit = digit_of(static_cast<unsigned char>(c));
    for (unsigned place = 0; place < 4; ++place)
      tables[place][c] = digit == kNoDigit ? kBad : digit << (18 - 6 * place);
  }
  return tables;
}
constexpr std::array<DigitTable, 4> kTables = make_tables();

enum class Decoded { kOk, kBadCharacter, kCutOff, kTooLong };

// Whole groups of four digits without anything between them: the fast path. Moves `text` and `out`
// on.
void decode_groups(std::string_view& text, uint8_t*& out, const uint8_t* out_end) {
  const auto* in = reinterpret_cast<const unsigned char*>(text.data());
  const auto* in_end = in + text.size();
  while (in_end - in >= 4 && out_end - out >= 3) {
    const uint32_t group =
        kTables[0][in[0]] | kTables[1][in[1]] | kTables[2][in[2]] | kTables[3][in[3]];
    if ((group & kBad) != 0) break;
    out[0] = static_cast<uint8_t>(group >> 16);
    out[1] = static_cast<uint8_t>(group >> 8);
    out[2] = static_cast<uint8_t>(group);
    in += 4;
    out += 3;
  }
  text.remove_prefix(static_cast<size_t>(reinterpret_cast<const char*>(in) - text.data()));
}

// After the first '=' only '=' (two in all) and white space may follow.
bool is_padding(std::string_view rest) {
  size_t n = 0;
  for (const char c : rest) {
    if (c == '=')
      ++n;
    else if (kSpace.find(c) == std::string_view::npos)
      return false;
  }
  return n <= 2;
}

// `out` holds bytes_max + 1 bytes or enough for all of `text`, whichever is less; cut to the bytes
// written.
Decoded decode_base64(std::string_view text, size_t bytes_max, std::vector<std::byte>& out) {
  auto* const begin = reinterpret_cast<uint8_t*>(out.data());
  uint8_t* to = begin;
  const uint8_t* const end = begin + out.size();
  uint32_t group = 0;
  int n_digits = 0;
  while (!text.empty()) {
    if (n_digits == 0) decode_groups(text, to, end);
    if (text.empty()) break;
    const char c = text.front();
    if (c == '=') {
      if (!is_padding(text)) return Decoded::kBadCharacter;
      break;
    }
    text.remove_prefix(1);
    if (kSpace.find(c) != std::string_view::npos) continue;
    const uint32_t digit = digit_of(static_cast<unsigned char>(c));
    if (digit == kNoDigit) return Decoded::kBadCharacter;
    group = group << 6 | digit;
    if (++n_digits < 4) continue;
    for (const int shift : {16, 8, 0}) {
      if (to == end) return Decoded::kTooLong;
      *to++ = static_cast<uint8_t>(group >> shift);
    }
    group = 0;
    n_digits = 0;
  }
  if (n_digits == 1) return Decoded::kCutOff;
  for (int i = 0; i + 1 < n_digits; ++i) {
    if (to == end) return Decoded::kTooLong;
    *to++ = static_cast<uint8_t>(group >> (6 * n_digits - 8 * (i + 1)));
  }
  const auto n = static_cast<size_t>(to - begin);
  if (n > bytes_max) return Decoded::kTooLong;
  out.resize(n);
  return Decoded::kOk;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

// False on a '%' without two hexadecimal digits behind it.
bool percent_decode(std::string_view text, std::string& out) {
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (text.size() - i < 3) return false;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return false;
    out.push_back(static_cast<char>(high << 4 | low));
    i += 2;
  }
  return true;
}

Result<std::vector<std::byte>> decode(std::string_view url, size_t bytes_max) {
  url = trim(url);
  if (!starts_with_any_case(url, "data:")) {
    if (starts_with_any_case(url, "http://") || starts_with_any_case(url, "https://"))
      return invalid_url(
          fmt::format("Images are not fetched from the web here; send a data URL: {} (a server "
                      "fetches them from the hosts of --allowed-media-domains)",
                      kForm));
    if (starts_with_any_case(url, "file:"))
      return invalid_url(fmt::format("Files are not read here; send a data URL: {}", kForm));
    return invalid_url(fmt::format("The image must be a data URL: {}", kForm));
  }
  const size_t comma = url.find(',');
  if (comma == std::string_view::npos)
    return invalid_url(
        fmt::format("The data URL has no comma before its data; it should read {}", kForm));
  const std::string_view head = url.substr(5, comma - 5);
  std::string_view payload = url.substr(comma + 1);
  const size_t last = head.rfind(';');
  const std::string_view encoding =
      last == std::string_view::npos ? std::string_view{} : trim(head.substr(last + 1));
  const bool base64 = encoding.size() == 6 && starts_with_any_case(encoding, "base64");

  std::string plain;
  // Base64 text has no '%' of its own, but a URL may spell '+', '/' and '=' that way.
  if (!base64 || payload.find('%') != std::string_view::npos) {
    if (payload.size() / 3 > bytes_max && !base64) return too_many_bytes(bytes_max);
    if (!percent_decode(payload, plain))
      return invalid_url("The data URL has a '%' without two hexadecimal digits behind it.");
    payload = plain;
  }
  std::vector<std::byte> bytes;
  if (!base64) {
    if (payload.size() > bytes_max) return too_many_bytes(bytes_max);
    bytes.resize(payload.size());
    if (!payload.empty()) std::memcpy(bytes.data(), payload.data(), payload.size());
    return bytes;
  }
  bytes.resize(std::min(payload.size() / 4 * 3 + 3, bytes_max + 1));
  switch (decode_base64(payload, bytes_max, bytes)) {
    case Decoded::kOk:
      return bytes;
    case Decoded::kTooLong:
      return too_many_bytes(bytes_max);
    case Decoded::kCutOff:
      return invalid_url("The data URL's base64 data is cut off.");
    case Decoded::kBadCharacter:
      break;
  }
  return invalid_url("The data URL holds a character that is not base64.");
}

}  // namespace

Result<std::vector<std::byte>> decode_data_url(std::string_view url, size_t bytes_max) {
  try {
    return decode(url, bytes_max);
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::kResourceExhausted, "There is no memory for the image now.");
  }
}

}  // namespace hs
