// BPE tokenizer from a checkpoint's tokenizer.json, of both kinds: SentencePiece-like with byte
// fallback, and byte-level with a regex pre-tokenizer. Reference: the `tokenizers` library, whose
// ids it reproduces. Immutable after load; every method may be called from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hs {

// A byte range [begin, end) of a text.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
};

class Tokenizer {
 public:
  struct EncodeOptions {
    bool add_special_tokens = true;  // run the post-processor (BOS and the like)
    std::span<const TextSpan>
        literal;  // sorted spans inside which no added token is recognised (user text)
  };

  // Reads DIR/tokenizer.json (and tokenizer_config.json where it matters).
  static Result<std::unique_ptr<Tokenizer>> load(const std::filesystem::path& dir);
  static Result<std::unique_ptr<Tokenizer>> parse(std::string_view tokenizer_json,
                                                  std::string_view tokenizer_config_json = {});
  virtual ~Tokenizer() = default;

  virtual std::vector<int32_t> encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;

  // Ids are 0 .. size()-1 (some may be unused); model matrices may have more rows, which are never
  // sampled.
  virtual int32_t size() const = 0;
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  virtual std::string_view token(
      int32_t id) const = 0;  // as in the vocabulary, e.g. "▁the"; "" if unused
  virtual bool is_special(int32_t id) const = 0;
  // The exact bytes this id adds to a text in mid-sentence ("▁the" -> " the", "<0xF0>" -> "\xF0").
  virtual std::string token_bytes(int32_t id) const = 0;
  // Whether a leading space of the first token of a text is dropped (SentencePiece-like decoders).
  virtual bool strips_leading_space() const = 0;
  // How: at most so many leading spaces of the whole text (decoder Strip) ...
  virtual size_t leading_spaces_dropped() const = 0;
  // ... or every leading space that the first token adds (decoder Metaspace).
  virtual bool drops_spaces_of_first_token() const = 0;
};

}  // namespace hs
