// The one implementation of Tokenizer: the parts of a tokenizer.json put together.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/marked_text.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace hs {

class BpeTokenizer final : public Tokenizer {
 public:
  // `config` is tokenizer_config.json, or null.
  static Result<std::unique_ptr<Tokenizer>> build(const nlohmann::json& json,
                                                  const nlohmann::json& config);

  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  int32_t size() const override { return size_; }
  std::optional<int32_t> id_of(std::string_view token) const override;
  std::string_view token(int32_t id) const override;
  bool is_special(int32_t id) const override;
  std::string token_bytes(int32_t id) const override;
  bool strips_leading_space() const override {
    return leading_spaces_dropped() > 0 || drops_spaces_of_first_token();
  }
  size_t leading_spaces_dropped() const override { return decoder_->leading_spaces_dropped(); }
  bool drops_spaces_of_first_token() const override {
    return decoder_->drops_spaces_of_first_token();
  }

 private:
  BpeTokenizer(Bpe bpe, std::vector<AddedToken> added);
  Status read_components(const nlohmann::json& json);
  Status resolve_added_ids();
  Status apply_config(const nlohmann::json& config);
  void build_matchers();
  void encode_text(MarkedText text, bool at_start, std::vector<int32_t>& ids) const;
  void encode_normalized(std::string text, bool at_start, std::vector<int32_t>& ids) const;

  Bpe bpe_;
  std::vector<AddedToken> added_;
  std::unordered_map<int32_t, size_t> added_by_id_;  // index into added_
  std::unordered_map<std::string_view, size_t> added_by_content_;
  std::unique_ptr<Normalizer> normalizer_;       // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer_;  // may be null
  std::unique_ptr<Decoder> decoder_;
  PostProcessor post_processor_;
  AddedTokenMatcher raw_matcher_{{}};         // looked for in the text as given
  AddedTokenMatcher normalized_matcher_{{}};  // looked for in the normalised text
  int32_t size_ = 0;
};

}  // namespace hs
