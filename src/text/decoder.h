// The decoder of a tokenizer.json: tokens back to text.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hs {

// Immutable; may be used from any thread.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Replaces the tokens by what they become; the text is all of them joined. Invalid UTF-8 becomes
  // U+FFFD.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  // The bytes that a token adds to a text when it is not the first one and stands alone; it may be
  // part of a character.
  virtual std::string bytes(std::string token) const = 0;
  // How much of the start of a text is dropped: so many leading spaces of the whole ...
  virtual size_t leading_spaces_dropped() const { return 0; }
  // ... or every space of the first token.
  virtual bool drops_spaces_of_first_token() const { return false; }
};

// Of the "decoder" object: Sequence, Replace, ByteFallback, Fuse, Strip, ByteLevel, Metaspace. A
// component of another type is kUnsupported and named.
Result<std::unique_ptr<Decoder>> parse_decoder(const nlohmann::json& json);

}  // namespace hs
