#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "text/unicode.h"

namespace hs {
namespace {

constexpr size_t kPatternBytesMax = 16384;
constexpr uint32_t kMatchLimitMin =
    1'000'000;  // backtracking steps allowed for one match, plus some a byte
constexpr uint32_t kMatchLimitMax = 200'000'000;

// PCRE2's \s takes U+180E, which is no white space since Unicode 6.3 and none to the reference: \s
// and \S are written out. (\S inside a class is left alone.)
std::string with_exact_spaces(std::string_view pattern) {
  constexpr std::string_view kSpaces = R"(\t-\r \x{85}\p{Z})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      if (c == '[' && !in_class) {
        in_class = true;
        out += c;
        // A bracket that comes first in a class is no end of it.
        if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
        if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];
        continue;
      }
      if (c == ']') in_class = false;
      out += c;
      continue;
    }
    const char escape = pattern[++i];
    if (escape == 's') {
      out += in_class ? std::string(kSpaces) : fmt::format("[{}]", kSpaces);
    } else if (escape == 'S' && !in_class) {
      out += fmt::format("[^{}]", kSpaces);
    } else {
      out += c;
      out += escape;
    }
  }
  return out;
}

struct MatchDataFree {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextFree {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
  pcre2_code* code;
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kPatternBytesMax)
    return fail(ErrorKind::kTooLarge, fmt::format("a pattern of {} bytes is over the limit of {}",
                                                  pattern.size(), kPatternBytesMax));
  const std::string exact = with_exact_spaces(pattern);
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(exact.data()), exact.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
                                   &error_offset, nullptr);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return fail(ErrorKind::kUnsupported, fmt::format("pattern error at byte {}: {}", error_offset,
                                                     reinterpret_cast<const char*>(text.data())));
  }
  return Regex(std::make_unique<Code>(code));
}

void Regex::for_each(std::string_view text, FunctionRef<void(size_t, size_t)> found) const {
  const std::unique_ptr<pcre2_match_data, MatchDataFree> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr));
  const std::unique_ptr<pcre2_match_context, MatchContextFree> context(
      pcre2_match_context_create(nullptr));
  if (data == nullptr || context == nullptr) throw std::bad_alloc();
  const size_t limit = kMatchLimitMin + text.size() * 16;
  pcre2_set_match_limit(context.get(),
                        static_cast<uint32_t>(std::min<size_t>(limit, kMatchLimitMax)));
  size_t pos = 0;
  while (pos <= text.size()) {
    const int count = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), pos, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (count < 0) return;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    if (range[1] < range[0] || range[0] < pos)
      return;  // \K in a look-around; no tokenizer means that
    found(range[0], range[1]);
    pos = range[1];
    if (range[0] == range[1]) {
      if (pos == text.size()) return;
      pos += utf8_length(text, pos);
    }
  }
}

}  // namespace hs
