#include "grammar/code_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace hs {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;

std::array<uint8_t, 4> encode(uint32_t c, int n) {
  switch (n) {
    case 1:
      return {static_cast<uint8_t>(c)};
    case 2:
      return {static_cast<uint8_t>(0xC0 | c >> 6), static_cast<uint8_t>(0x80 | (c & 0x3F))};
    case 3:
      return {static_cast<uint8_t>(0xE0 | c >> 12), static_cast<uint8_t>(0x80 | (c >> 6 & 0x3F)),
              static_cast<uint8_t>(0x80 | (c & 0x3F))};
    default:
      return {static_cast<uint8_t>(0xF0 | c >> 18), static_cast<uint8_t>(0x80 | (c >> 12 & 0x3F)),
              static_cast<uint8_t>(0x80 | (c >> 6 & 0x3F)),
              static_cast<uint8_t>(0x80 | (c & 0x3F))};
  }
}

// Code points of one length, by their bytes at and after `at`: where the first bytes differ, the
// ends of the range go on alone and what lies between takes every continuation.
Expr between(ExpressionPool& pool, std::array<uint8_t, 4> first, std::array<uint8_t, 4> last,
             int at, int n) {
  if (at == n) return kEmptyText;
  const auto i = static_cast<size_t>(at);
  const auto one = [&](uint8_t from, uint8_t to) { return pool.one_of(ByteSet::range(from, to)); };
  if (first[i] == last[i])
    return pool.sequence({one(first[i], last[i]), between(pool, first, last, at + 1, n)});
  std::array<uint8_t, 4> lowest = first, highest = last;
  for (auto k = i + 1; k < 4; ++k) {
    lowest[k] = 0x80;
    highest[k] = 0xBF;
  }
  std::vector<Expr> parts = {
      pool.sequence({one(first[i], first[i]), between(pool, first, highest, at + 1, n)}),
      pool.sequence({one(last[i], last[i]), between(pool, lowest, last, at + 1, n)})};
  if (last[i] - first[i] > 1) {
    parts.push_back(
        pool.sequence({one(static_cast<uint8_t>(first[i] + 1), static_cast<uint8_t>(last[i] - 1)),
                       between(pool, lowest, highest, at + 1, n)}));
  }
  return pool.either(parts);
}

}  // namespace

CodePointSet CodePointSet::of(uint32_t first, uint32_t last) {
  CodePointSet set;
  set.add(first, last);
  return set;
}

void CodePointSet::add(uint32_t first, uint32_t last) {
  if (first > last) return;
  ranges_.emplace_back(first, last);
  std::ranges::sort(ranges_);
  std::vector<std::pair<uint32_t, uint32_t>> merged;
  for (const auto& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, range.second);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
}

void CodePointSet::add(const CodePointSet& other) {
  for (const auto& [first, last] : other.ranges_) add(first, last);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet set;
  uint32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) set.ranges_.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLastCodePoint) set.ranges_.emplace_back(next, kLastCodePoint);
  return set;
}

CodePointSet CodePointSet::intersection(const CodePointSet& other) const {
  CodePointSet either_missing = complement();
  either_missing.add(other.complement());
  return either_missing.complement();
}

bool CodePointSet::has(uint32_t code_point) const {
  return std::ranges::any_of(ranges_, [&](const auto& range) {
    return range.first <= code_point && code_point <= range.second;
  });
}

Expr utf8_of(ExpressionPool& pool, const CodePointSet& set) {
  // Ranges whose members take equally many bytes.
  struct Length {
    uint32_t first, last;
    int bytes;
  };
  constexpr Length kLengths[] = {{0, 0x7F, 1},
                                 {0x80, 0x7FF, 2},
                                 {0x800, kFirstSurrogate - 1, 3},
                                 {kLastSurrogate + 1, 0xFFFF, 3},
                                 {0x10000, kLastCodePoint, 4}};
  std::vector<Expr> parts;
  for (const auto& [first, last] : set.ranges()) {
    for (const Length& length : kLengths) {
      const uint32_t from = std::max(first, length.first), to = std::min(last, length.last);
      if (from > to) continue;
      parts.push_back(
          between(pool, encode(from, length.bytes), encode(to, length.bytes), 0, length.bytes));
    }
  }
  return pool.either(parts);
}

Expr json_string_char_of(ExpressionPool& pool, const CodePointSet& set) {
  CodePointSet escaped = CodePointSet::of(0, 0x1F);
  escaped.add('"', '"');
  escaped.add('\\', '\\');
  std::vector<Expr> parts = {utf8_of(pool, set.intersection(escaped.complement()))};
  constexpr std::pair<char, char> kShort[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                              {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
  for (const auto& [c, letter] : kShort) {
    if (set.has(static_cast<uint8_t>(c))) parts.push_back(pool.literal(std::string{'\\', letter}));
  }
  for (uint32_t c = 0; c < 0x20; ++c) {
    const bool has_short = std::ranges::any_of(
        kShort, [&](const auto& one) { return static_cast<uint8_t>(one.first) == c; });
    if (set.has(c) && !has_short) parts.push_back(pool.literal(fmt::format("\\u{:04x}", c)));
  }
  return pool.either(parts);
}

}  // namespace hs
