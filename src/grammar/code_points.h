// Sets of Unicode code points, and how their members are written as bytes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "grammar/expression.h"

namespace hs {

constexpr uint32_t kLastCodePoint = 0x10FFFF;

// Ranges [first, last], sorted and apart.
class CodePointSet {
 public:
  CodePointSet() = default;
  static CodePointSet all() { return of(0, kLastCodePoint); }
  static CodePointSet of(uint32_t first, uint32_t last);

  void add(uint32_t first, uint32_t last);
  void add(const CodePointSet& other);
  CodePointSet complement() const;
  CodePointSet intersection(const CodePointSet& other) const;
  bool has(uint32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<std::pair<uint32_t, uint32_t>>& ranges() const { return ranges_; }

 private:
  std::vector<std::pair<uint32_t, uint32_t>> ranges_;
};

// One of them in UTF-8. Surrogates are left out.
Expr utf8_of(ExpressionPool& pool, const CodePointSet& set);

// One of them inside a JSON string (RFC 8259): as itself in UTF-8, or escaped where it must be.
Expr json_string_char_of(ExpressionPool& pool, const CodePointSet& set);

}  // namespace hs
