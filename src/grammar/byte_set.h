// A set of bytes.
#pragma once

#include <array>
#include <cstdint>

namespace hs {

class ByteSet {
 public:
  constexpr ByteSet() = default;
  // Bytes first to last, both included.
  static constexpr ByteSet range(uint8_t first, uint8_t last) {
    ByteSet set;
    for (int b = first; b <= last; ++b) set.add(static_cast<uint8_t>(b));
    return set;
  }

  constexpr void add(uint8_t b) { words_[b / 64] |= uint64_t{1} << (b % 64); }
  constexpr bool has(uint8_t b) const { return (words_[b / 64] >> (b % 64) & 1) != 0; }
  constexpr bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  constexpr bool contains(const ByteSet& other) const {
    uint64_t missing = 0;
    for (size_t i = 0; i < words_.size(); ++i) missing |= other.words_[i] & ~words_[i];
    return missing == 0;
  }
  constexpr ByteSet& operator|=(const ByteSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  bool operator==(const ByteSet&) const = default;
  const std::array<uint64_t, 4>& words() const { return words_; }

 private:
  std::array<uint64_t, 4> words_ = {};
};

}  // namespace hs
