#include "text/jinja_text_ops.h"

#include <algorithm>
#include <string>

#include "text/unicode.h"

namespace hs::jinja {

bool is_python_space(char32_t c) {
  return is_whitespace(c) || (c >= 0x1C && c <= 0x1F);
}

Text strip(const Text& text, const Text* chars, bool left, bool right) {
  const std::string_view bytes = text.bytes;
  const auto strips = [&](size_t begin, size_t end, char32_t c) {
    if (chars == nullptr) return is_python_space(c);
    return chars->bytes.find(bytes.substr(begin, end - begin)) != std::string::npos;
  };
  size_t begin = 0;
  while (left && begin < bytes.size()) {
    size_t next = begin;
    const char32_t c = next_char(bytes, next);
    if (!strips(begin, next, c)) break;
    begin = next;
  }
  size_t end = bytes.size();
  while (right && end > begin) {
    size_t before = end;
    const char32_t c = previous_char(bytes, before);
    if (!strips(before, end, c)) break;
    end = before;
  }
  return text.slice(begin, end);
}

Text replace(const Text& text, std::string_view from, const Text& to, int64_t count) {
  const std::string_view bytes = text.bytes;
  Text out;
  size_t done = 0;
  if (from.empty()) {
    // Between all characters and at both ends.
    size_t pos = 0;
    while (count != 0) {
      out.append(to);
      if (count > 0) --count;
      if (pos == bytes.size()) return out;
      const size_t begin = pos;
      pos += utf8_length(bytes, pos);
      out.append(text.slice(begin, pos));
    }
    out.append(text.slice(pos, bytes.size()));
    return out;
  }
  for (size_t at = bytes.find(from); at != std::string_view::npos && count != 0;
       at = bytes.find(from, done)) {
    out.append(text.slice(done, at));
    out.append(to);
    done = at + from.size();
    if (count > 0) --count;
  }
  out.append(text.slice(done, bytes.size()));
  return out;
}

namespace {

std::vector<Text> split_at_space(const Text& text, int64_t splits) {
  std::vector<Text> parts;
  const std::string_view bytes = text.bytes;
  size_t pos = 0;
  while (true) {
    while (pos < bytes.size()) {
      size_t next = pos;
      if (!is_python_space(next_char(bytes, next))) break;
      pos = next;
    }
    if (pos == bytes.size()) return parts;
    if (splits == 0) {
      parts.push_back(strip(text.slice(pos, bytes.size()), nullptr, false, true));
      return parts;
    }
    const size_t begin = pos;
    while (pos < bytes.size()) {
      size_t next = pos;
      if (is_python_space(next_char(bytes, next))) break;
      pos = next;
    }
    parts.push_back(text.slice(begin, pos));
    if (splits > 0) --splits;
  }
}

}  // namespace

std::vector<Text> split(const Text& text, const std::optional<std::string_view>& separator,
                        int64_t splits) {
  if (!separator) return split_at_space(text, splits);
  if (separator->empty()) throw TemplateError{"empty separator"};
  std::vector<Text> parts;
  size_t done = 0;
  for (size_t at = text.bytes.find(*separator); at != std::string::npos && splits != 0;
       at = text.bytes.find(*separator, done)) {
    parts.push_back(text.slice(done, at));
    done = at + separator->size();
    if (splits > 0) --splits;
  }
  parts.push_back(text.slice(done, text.bytes.size()));
  return parts;
}

std::vector<Text> split_from_right(const Text& text,
                                   const std::optional<std::string_view>& separator,
                                   int64_t splits) {
  if (splits < 0) return split(text, separator, -1);
  if (separator && separator->empty()) throw TemplateError{"empty separator"};
  std::vector<Text> parts;
  size_t end = text.bytes.size();
  const std::string_view bytes = text.bytes;
  while (true) {
    if (!separator) end = strip(text.slice(0, end), nullptr, false, true).bytes.size();
    if (!separator && end == 0) break;
    if (splits == 0) {
      parts.push_back(separator ? text.slice(0, end)
                                : strip(text.slice(0, end), nullptr, true, false));
      break;
    }
    size_t begin = end;
    size_t next_end = 0;
    bool found = false;
    if (separator) {
      const size_t at = end < separator->size() ? std::string_view::npos
                                                : bytes.rfind(*separator, end - separator->size());
      found = at != std::string_view::npos;
      begin = found ? at + separator->size() : 0;
      next_end = found ? at : 0;
    } else {
      while (begin > 0) {
        size_t before = begin;
        if (is_python_space(previous_char(bytes, before))) break;
        begin = before;
      }
      found = begin > 0;
      next_end = begin;
    }
    parts.push_back(text.slice(begin, end));
    if (!found) break;
    end = next_end;
    --splits;
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  const auto ends_line = [](char32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
  };
  std::vector<Text> lines;
  const std::string_view bytes = text.bytes;
  size_t begin = 0;
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t at = pos;
    const char32_t c = next_char(bytes, pos);
    if (!ends_line(c)) continue;
    if (c == '\r' && pos < bytes.size() && bytes[pos] == '\n') ++pos;
    lines.push_back(text.slice(begin, keep_ends ? pos : at));
    begin = pos;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

Text with_case(const Text& text, Case form) {
  Text out;
  bool inside = false;  // of a word, or behind the first character
  for (size_t pos = 0; pos < text.bytes.size();) {
    const size_t begin = pos;
    const char32_t c = next_char(text.bytes, pos);
    std::string mapped;
    const bool upper = form == Case::kUpper || (form != Case::kLower && !inside);
    if (upper)
      append_upper(mapped, c);
    else
      append_lower(mapped, c);
    out.append(mapped, text.literal_at(begin));
    if (form == Case::kCapitalized) inside = true;
    if (form == Case::kTitle) inside = is_letter(c);
    if (form == Case::kWordStarts)
      inside = !(is_python_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<');
  }
  return out;
}

size_t character_count(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

int64_t character_index(std::string_view text, size_t byte) {
  return static_cast<int64_t>(character_count(text.substr(0, byte)));
}

}  // namespace hs::jinja
