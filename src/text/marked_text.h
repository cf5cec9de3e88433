// A text whose bytes may each be marked literal, so that the marks survive normalisation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hs {

struct MarkedText {
  std::string text;
  std::vector<uint8_t> literal;  // empty: nothing is literal; else one a byte, 1 = literal

  bool marked() const { return !literal.empty(); }
  // Appends bytes that all carry one mark. REQUIRES: marked() or the text is empty, where `marks`
  // is true.
  void append(std::string_view bytes, bool marks, uint8_t mark) {
    text += bytes;
    if (marks) literal.resize(text.size(), mark);
  }
};

}  // namespace hs
