#include "grammar/pattern_parser.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

namespace hs {
namespace {

constexpr size_t kPatternBytesMax = 16 << 10;
constexpr int kDepthMax = 64;
constexpr int32_t kCountMax = 10'000;
constexpr char32_t kEnd = 0xFFFFFFFF;

// The code points of valid UTF-8; nothing where it is not.
std::optional<std::u32string> decode_utf8(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const int n = lead < 0x80       ? 1
                  : lead >> 5 == 6  ? 2
                  : lead >> 4 == 14 ? 3
                  : lead >> 3 == 30 ? 4
                                    : 0;
    if (n == 0 || i + static_cast<size_t>(n) > text.size()) return std::nullopt;
    char32_t c = n == 1 ? lead : lead & (0x7F >> n);
    for (int k = 1; k < n; ++k) {
      const auto next = static_cast<uint8_t>(text[i + static_cast<size_t>(k)]);
      if (next >> 6 != 2) return std::nullopt;
      c = c << 6 | (next & 0x3F);
    }
    constexpr char32_t kFirstOf[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < kFirstOf[n] || c > kLastCodePoint || (c >= 0xD800 && c <= 0xDFFF)) return std::nullopt;
    out.push_back(c);
    i += static_cast<size_t>(n);
  }
  return out;
}

CodePointSet digit_set() {
  return CodePointSet::of('0', '9');
}

CodePointSet word_set() {
  CodePointSet set = digit_set();
  set.add('a', 'z');
  set.add('A', 'Z');
  set.add('_', '_');
  return set;
}

CodePointSet space_set() {
  CodePointSet set = CodePointSet::of('\t', '\r');
  set.add(' ', ' ');
  return set;
}

CodePointSet not_line_end_set() {
  CodePointSet set = CodePointSet::of('\n', '\n');
  set.add('\r', '\r');
  set.add(0x2028, 0x2029);
  return set.complement();
}

class PatternParser {
 public:
  PatternParser(ExpressionPool& pool, std::u32string text, PatternOptions options,
                FunctionRef<Expr(const CodePointSet&)> char_of)
      : pool_(pool), text_(std::move(text)), options_(options), char_of_(char_of) {}

  Result<Expr> parse() {
    const Result<Expr> all = alternatives(0, true);
    if (!all) return all;
    if (at_ < text_.size()) return wrong("a ) without its (");
    return all;
  }

 private:
  std::unexpected<Error> wrong(std::string_view what) const {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("The pattern has {} at character {}.", what, at_ + 1));
  }
  char32_t peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : kEnd;
  }
  bool take(char32_t c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  Expr any_text() { return pool_.any_number_of(char_of_(CodePointSet::all())); }

  // `outer`: not inside of a group, so that anchors may stand at its ends.
  Result<Expr> alternatives(int depth, bool outer) {
    if (depth > kDepthMax) return wrong("too many groups inside each other");
    std::vector<Expr> options;
    do {
      const Result<Expr> branch = sequence(depth, outer);
      if (!branch) return branch;
      options.push_back(*branch);
    } while (take('|'));
    return pool_.either(options);
  }

  Result<Expr> sequence(int depth, bool outer) {
    std::vector<Expr> parts;
    const bool starts = outer && take('^');
    bool ends = false;
    while (peek() != kEnd && peek() != '|' && peek() != ')') {
      if (outer && peek() == '$' && (peek(1) == kEnd || peek(1) == '|')) {
        ++at_;
        ends = true;
        break;
      }
      const Result<Expr> part = quantified(depth);
      if (!part) return part;
      parts.push_back(*part);
    }
    Expr all = pool_.sequence(parts);
    if (outer && !options_.whole) {
      if (!starts) all = pool_.sequence({any_text(), all});
      if (!ends) all = pool_.sequence({all, any_text()});
    }
    return all;
  }

  Result<Expr> quantified(int depth) {
    const Result<Expr> inner = atom(depth);
    if (!inner) return inner;
    int32_t min = 1, max = 1;
    if (take('*')) {
      min = 0;
      max = ExpressionPool::kUnlimited;
    } else if (take('+')) {
      max = ExpressionPool::kUnlimited;
    } else if (take('?')) {
      min = 0;
    } else if (peek() == '{') {
      ++at_;
      const Result<int32_t> low = count();
      if (!low) return std::unexpected(low.error());
      min = max = *low;
      if (take(',')) {
        max = ExpressionPool::kUnlimited;
        if (peek() != '}') {
          const Result<int32_t> high = count();
          if (!high) return std::unexpected(high.error());
          max = *high;
        }
      }
      if (!take('}')) return wrong("a repetition that is not {n}, {n,} or {n,m}");
      if (max != ExpressionPool::kUnlimited && max < min)
        return wrong("a repetition from more to less");
    } else {
      return inner;
    }
    take('?');
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')
      return wrong("a quantifier after a quantifier");
    return pool_.repeat(*inner, min, max);
  }

  Result<int32_t> count() {
    if (peek() < '0' || peek() > '9') return wrong("a repetition that is not {n}, {n,} or {n,m}");
    int32_t n = 0;
    while (peek() >= '0' && peek() <= '9') {
      n = n * 10 + static_cast<int32_t>(peek() - '0');
      if (n > kCountMax) return wrong(fmt::format("a repetition of more than {}", kCountMax));
      ++at_;
    }
    return n;
  }

  Result<Expr> atom(int depth) {
    const char32_t c = peek();
    switch (c) {
      case '(':
        return group(depth);
      case '[':
        return character_class();
      case '.':
        ++at_;
        return char_of_(not_line_end_set());
      case '\\': {
        const Result<CodePointSet> set = escape();
        if (!set) return std::unexpected(set.error());
        return char_of_(*set);
      }
      case '^':
      case '$':
        return wrong("an anchor that is not at an end of the pattern");
      case '*':
      case '+':
      case '?':
      case '{':
        return wrong("a quantifier without what it repeats");
      default:
        ++at_;
        return char_of_(CodePointSet::of(c, c));
    }
  }

  Result<Expr> group(int depth) {
    ++at_;
    if (peek() == '?') {
      if (peek(1) != ':') return wrong("a group of a kind that is not regular");
      at_ += 2;
    }
    const Result<Expr> inner = alternatives(depth + 1, false);
    if (!inner) return inner;
    if (!take(')')) return wrong("a ( without its )");
    return inner;
  }

  Result<Expr> character_class() {
    ++at_;
    const bool negated = take('^');
    CodePointSet set;
    while (peek() != ']') {
      if (peek() == kEnd) return wrong("a [ without its ]");
      const Result<CodePointSet> first = class_member();
      if (!first) return std::unexpected(first.error());
      if (peek() == '-' && peek(1) != ']' && peek(1) != kEnd) {
        ++at_;
        const Result<CodePointSet> last = class_member();
        if (!last) return std::unexpected(last.error());
        const std::optional<uint32_t> from = single(*first), to = single(*last);
        if (!from || !to || *from > *to) return wrong("a range that does not go upwards");
        set.add(*from, *to);
      } else {
        set.add(*first);
      }
    }
    ++at_;
    if (negated) set = set.complement();
    if (set.empty()) return wrong("a class without characters");
    return char_of_(set);
  }

  static std::optional<uint32_t> single(const CodePointSet& set) {
    if (set.ranges().size() != 1 || set.ranges()[0].first != set.ranges()[0].second)
      return std::nullopt;
    return set.ranges()[0].first;
  }

  Result<CodePointSet> class_member() {
    const char32_t c = peek();
    if (c == kEnd) return wrong("a [ without its ]");
    if (c == '\\') {
      if (peek(1) == 'b') {
        at_ += 2;
        return CodePointSet::of('\b', '\b');
      }
      return escape();
    }
    ++at_;
    return CodePointSet::of(c, c);
  }

  Result<CodePointSet> escape() {
    ++at_;
    const char32_t c = peek();
    if (c == kEnd) return wrong("a \\ without what it escapes");
    ++at_;
    const auto one = [](uint32_t code) { return CodePointSet::of(code, code); };
    switch (c) {
      case 'd':
        return digit_set();
      case 'D':
        return digit_set().complement();
      case 'w':
        return word_set();
      case 'W':
        return word_set().complement();
      case 's':
        return space_set();
      case 'S':
        return space_set().complement();
      case 'n':
        return one('\n');
      case 't':
        return one('\t');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        return one(0);
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      default:
        break;
    }
    const bool is_letter = word_set().has(c);
    if (is_letter) return wrong("an escape that is not regular or not known");
    return one(c);
  }

  Result<CodePointSet> hex(int n) {
    uint32_t code = 0;
    const bool braced = n == 4 && take('{');
    for (int i = 0; braced ? peek() != '}' : i < n; ++i) {
      const char32_t c = peek();
      const int digit = c >= '0' && c <= '9'   ? static_cast<int>(c - '0')
                        : c >= 'a' && c <= 'f' ? static_cast<int>(c - 'a') + 10
                        : c >= 'A' && c <= 'F' ? static_cast<int>(c - 'A') + 10
                                               : -1;
      if (digit < 0 || i > 5) return wrong("an escape with too few or too many hexadecimal digits");
      code = code * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    if (braced) ++at_;
    if (code > kLastCodePoint || (code >= 0xD800 && code <= 0xDFFF))
      return wrong("an escape that is no character");
    return CodePointSet::of(code, code);
  }

  ExpressionPool& pool_;
  std::u32string text_;
  PatternOptions options_;
  FunctionRef<Expr(const CodePointSet&)> char_of_;
  size_t at_ = 0;
};

}  // namespace

Result<Expr> parse_pattern(ExpressionPool& pool, std::string_view pattern, PatternOptions options,
                           FunctionRef<Expr(const CodePointSet&)> char_of) {
  if (pattern.size() > kPatternBytesMax) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("The pattern has more than {} bytes.", kPatternBytesMax));
  }
  std::optional<std::u32string> text = decode_utf8(pattern);
  if (!text) return fail(ErrorKind::kInvalidArgument, "The pattern is not valid UTF-8.");
  return PatternParser(pool, std::move(*text), options, char_of).parse();
}

}  // namespace hs
