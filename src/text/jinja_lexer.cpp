#include "text/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "text/jinja_text_ops.h"
#include "text/jinja_value.h"
#include "text/unicode.h"

namespace hs::jinja {
namespace {

using Kind = Token::Kind;

// Newlines become \n, and one at the end is dropped.
std::string normalized_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_name_byte(char c, bool first) {
  const auto byte = static_cast<unsigned char>(c);
  const auto lower = static_cast<unsigned char>(byte | 0x20U);
  return byte == '_' || byte >= 0x80 || (lower >= 'a' && lower <= 'z') ||
         (!first && byte >= '0' && byte <= '9');
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(normalized_newlines(source)), source_(owned_) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) lex_root();
    tokens_.push_back({Kind::kEnd, "", line_});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_here(std::string message) const {
    throw TemplateError{std::move(message), line_};
  }
  bool starts_with(std::string_view text) const { return source_.substr(pos_).starts_with(text); }
  void advance(size_t count) {
    line_ += static_cast<int>(std::ranges::count(source_.substr(pos_, count), '\n'));
    pos_ += count;
  }
  void skip_space() {
    size_t end = pos_;
    while (end < source_.size()) {
      size_t next = end;
      if (!is_python_space(next_char(source_, next))) break;
      end = next;
    }
    advance(end - pos_);
  }

  // Text up to the next tag, then that tag.
  void lex_root() {
    size_t tag = pos_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        add_data(source_.substr(pos_));
        advance(source_.size() - pos_);
        return;
      }
      const char kind = source_[tag + 1];
      if (kind == '%' || kind == '{' || kind == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool signed_tag = sign == '-' || sign == '+';
    add_data(stripped_before(source_.substr(pos_, tag - pos_), sign, kind == '{'));
    advance(tag - pos_);
    const size_t begin_bytes = signed_tag ? 3 : 2;
    if (kind == '#') {
      lex_comment(begin_bytes);
    } else if (kind == '%' && lex_raw(begin_bytes)) {
      return;
    } else {
      tokens_.push_back({kind == '%' ? Kind::kBlockBegin : Kind::kVariableBegin, "", line_});
      advance(begin_bytes);
      lex_expression(kind == '%');
    }
  }

  // The data before a tag as its sign and lstrip_blocks leave it.
  std::string_view stripped_before(std::string_view data, char sign, bool is_variable) const {
    if (sign == '-') {
      size_t end = data.size();
      while (end > 0) {
        size_t before = end;
        if (!is_python_space(previous_char(data, before))) break;
        end = before;
      }
      return data.substr(0, end);
    }
    if (sign == '+' || is_variable) return data;
    const size_t newline = data.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return data;
    const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    for (size_t pos = start; pos < data.size();)
      if (!is_python_space(next_char(data, pos))) return data;
    return data.substr(0, start);
  }

  void add_data(std::string_view data) {
    if (!data.empty()) tokens_.push_back({Kind::kData, std::string(data), line_});
  }

  // REQUIRES: the end tag (two bytes at pos_ + sign) is there. Skips it and the white space that
  // goes with it.
  void end_tag(char sign, bool trims_newline) {
    const size_t begin = pos_;
    advance(sign == '\0' ? 2 : 3);
    if (sign == '-') {
      skip_space();
    } else if (sign == '\0' && trims_newline && starts_with("\n")) {
      advance(1);
    }
    line_starting_ = pos_ > begin && source_[pos_ - 1] == '\n';
  }

  void lex_comment(size_t begin_bytes) {
    const size_t close = source_.find("#}", pos_ + begin_bytes);
    if (close == std::string_view::npos) fail_here("Missing end of comment tag");
    const char before = close > pos_ + begin_bytes ? source_[close - 1] : '\0';
    const char sign = before == '-' || before == '+' ? before : '\0';
    advance(close - pos_ - (sign == '\0' ? 0 : 1));
    end_tag(sign, true);
  }

  // After white space from `pos`: `word`, white space and an end tag. Gives the sign of that tag
  // and where it begins.
  std::optional<std::pair<char, size_t>> word_and_end(size_t pos, std::string_view word,
                                                      bool plus_allowed) const {
    const auto skip = [&] {
      while (pos < source_.size()) {
        size_t next = pos;
        if (!is_python_space(next_char(source_, next))) break;
        pos = next;
      }
    };
    skip();
    if (!source_.substr(pos).starts_with(word)) return std::nullopt;
    pos += word.size();
    skip();
    const std::string_view rest = source_.substr(pos);
    if (rest.starts_with("-%}")) return std::pair{'-', pos};
    if (plus_allowed && rest.starts_with("+%}")) return std::pair{'+', pos};
    if (rest.starts_with("%}")) return std::pair{'\0', pos};
    return std::nullopt;
  }

  // {% raw %} ... {% endraw %}; false if the tag at pos_ is another.
  bool lex_raw(size_t begin_bytes) {
    const auto begin = word_and_end(pos_ + begin_bytes, "raw", false);
    if (!begin) return false;
    advance(begin->second - pos_);
    end_tag(begin->first, false);
    size_t tag = pos_;
    while ((tag = source_.find("{%", tag)) != std::string_view::npos) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const bool signed_tag = sign == '-' || sign == '+';
      if (const auto end = word_and_end(tag + (signed_tag ? 3 : 2), "endraw", true)) {
        add_data(stripped_before(source_.substr(pos_, tag - pos_), sign, false));
        advance(end->second - pos_);
        end_tag(end->first, true);
        return true;
      }
      tag += 2;
    }
    fail_here("Missing end of raw directive");
  }

  // Tokens up to the end of the tag.
  void lex_expression(bool is_block) {
    const std::string_view close = is_block ? "%}" : "}}";
    std::string open;  // brackets that wait for their end
    while (true) {
      skip_space();
      if (pos_ >= source_.size()) fail_here("unexpected end of template inside a tag");
      if (open.empty()) {
        const bool minus = source_[pos_] == '-' && source_.substr(pos_ + 1).starts_with(close);
        const bool plus =
            is_block && source_[pos_] == '+' && source_.substr(pos_ + 1).starts_with(close);
        if (minus || plus || starts_with(close)) {
          tokens_.push_back({is_block ? Kind::kBlockEnd : Kind::kVariableEnd, "", line_});
          end_tag(minus ? '-' : plus ? '+' : '\0', is_block);
          return;
        }
      }
      lex_token(open);
    }
  }

  void lex_token(std::string& open) {
    const char c = source_[pos_];
    if (is_digit(c)) {
      lex_number();
    } else if (is_name_byte(c, true)) {
      size_t end = pos_;
      while (end < source_.size() && is_name_byte(source_[end], false)) ++end;
      add_token(Kind::kName, end - pos_);
    } else if (c == '\'' || c == '"') {
      lex_string(c);
    } else {
      lex_operator(open);
    }
  }

  void add_token(Kind kind, size_t bytes) {
    tokens_.push_back({kind, std::string(source_.substr(pos_, bytes)), line_});
    advance(bytes);
  }

  void lex_operator(std::string& open) {
    constexpr std::array<std::string_view, 6> kTwo = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view op : kTwo)
      if (starts_with(op)) return add_token(Kind::kOperator, 2);
    const char c = source_[pos_];
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos)
      fail_here(fmt::format("unexpected character at byte {}", pos_));
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail_here(fmt::format("unexpected '{}'", c));
      if (open.back() != c)
        fail_here(fmt::format("unexpected '{}', expected '{}'", c, open.back()));
      open.pop_back();
    }
    add_token(Kind::kOperator, 1);
  }

  // Digits with single underscores between them, from `pos`.
  size_t digits_end(size_t pos) const {
    while (pos < source_.size()) {
      if (is_digit(source_[pos])) {
        ++pos;
      } else if (source_[pos] == '_' && pos + 1 < source_.size() && is_digit(source_[pos + 1])) {
        pos += 2;
      } else {
        break;
      }
    }
    return pos;
  }

  void lex_number() {
    const bool after_dot = !tokens_.empty() && tokens_.back().is_operator(".");
    const char prefix =
        pos_ + 1 < source_.size() ? static_cast<char>(source_[pos_ + 1] | 0x20) : '\0';
    if (source_[pos_] == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b')) {
      size_t end = pos_ + 2;
      while (end < source_.size() && (digit_value(source_[end]) < 16 || source_[end] == '_')) ++end;
      return add_number(Kind::kInteger, end);
    }
    size_t end = digits_end(pos_);
    bool is_float = false;
    if (!after_dot) {
      if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
        end = digits_end(end + 1);
        is_float = true;
      }
      if (end < source_.size() && (source_[end] | 0x20) == 'e') {
        size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-'))
          ++exponent;
        if (exponent < source_.size() && is_digit(source_[exponent])) {
          end = digits_end(exponent);
          is_float = true;
        }
      }
    }
    add_number(is_float ? Kind::kFloat : Kind::kInteger, end);
  }

  void add_number(Kind kind, size_t end) {
    std::string text(source_.substr(pos_, end - pos_));
    std::erase(text, '_');
    tokens_.push_back({kind, std::move(text), line_});
    advance(end - pos_);
  }

  void lex_string(char quote) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_here("unexpected end of a string");
    std::string text = unescaped(source_.substr(pos_ + 1, end - pos_ - 1));
    tokens_.push_back({Kind::kString, std::move(text), line_});
    advance(end + 1 - pos_);
  }

  // Python's escapes; an unknown one stays as it is.
  std::string unescaped(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      constexpr std::string_view kFrom = "abfnrtv\\'\"";
      constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t at = kFrom.find(c); at != std::string_view::npos) {
        out += kTo[at];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        append_code(out, text.substr(i + 1, digits), digits, 16);
        i += digits;
      } else if (c >= '0' && c <= '7') {
        size_t digits = 1;
        while (digits < 3 && i + digits < text.size() && text[i + digits] >= '0' &&
               text[i + digits] <= '7')
          ++digits;
        append_code(out, text.substr(i, digits), digits, 8);
        i += digits - 1;
      } else if (c == 'N') {
        fail_here("the escape \\N is not supported");
      } else if (c != '\n') {  // a backslash joins lines
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  void append_code(std::string& out, std::string_view digits, size_t count, int base) const {
    char32_t code = 0;
    for (const char c : digits) {
      if (digit_value(c) >= base) fail_here("a broken escape in a string");
      code = code * static_cast<char32_t>(base) + static_cast<char32_t>(digit_value(c));
    }
    if (digits.size() != count || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      fail_here("a broken escape in a string");
    append_char(out, code);
  }

  std::string owned_;
  std::string_view source_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the tag before ended with a newline
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace hs::jinja
