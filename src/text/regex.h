// A compiled regular expression over UTF-8, for the patterns of tokenizer.json. PCRE2 without its
// JIT, so that the service can run without writable-and-executable memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"

namespace hs {

// Immutable; may be used from any thread.
class Regex {
 public:
  static Result<Regex> compile(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Calls `found(begin, end)` for each match in order; matches do not overlap and may be empty. A
  // search that costs more than its limit (a hostile pattern) ends the matches. REQUIRES: text is
  // valid UTF-8.
  void for_each(std::string_view text, FunctionRef<void(size_t, size_t)> found) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace hs
