// The normalizer of a tokenizer.json: what is done to a text before it is split and merged.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "text/marked_text.h"

namespace hs {

// Immutable; may be used from any thread.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // REQUIRES: the text is valid UTF-8, and stays so. A mark goes to what its bytes become; bytes
  // that are added take the mark of the byte behind them.
  virtual void apply(MarkedText& text) const = 0;
};

// Of the "normalizer" object: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, Replace, Prepend. A
// component of another type is kUnsupported and named.
Result<std::unique_ptr<Normalizer>> parse_normalizer(const nlohmann::json& json);

}  // namespace hs
