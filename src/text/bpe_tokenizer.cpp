#include "text/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/json_fields.h"
#include "text/unicode.h"

namespace hs {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: added_tokens";

Result<AddedToken> parse_added_token(const nlohmann::json& json, std::string_view where) {
  AddedToken token;
  auto content = json_string(json, "content", where);
  if (!content) return std::unexpected(content.error());
  token.content = std::move(*content);
  for (const auto& [key, target] :
       {std::pair{"special", &token.special}, std::pair{"normalized", &token.normalized},
        std::pair{"lstrip", &token.lstrip}, std::pair{"rstrip", &token.rstrip},
        std::pair{"single_word", &token.single_word}}) {
    const auto value = json_bool(json, key, false, where);
    if (!value) return std::unexpected(value.error());
    *target = *value;
  }
  return token;
}

// The "added_tokens" array.
Result<std::vector<AddedToken>> parse_added_tokens(const nlohmann::json& json) {
  std::vector<AddedToken> tokens;
  const nlohmann::json* list = json_field(json, "added_tokens");
  if (list == nullptr) return tokens;
  if (!list->is_array())
    return fail(ErrorKind::kDataLoss, fmt::format("{} must be an array", kWhere));
  for (const nlohmann::json& item : *list) {
    auto token = parse_added_token(item, kWhere);
    if (!token) return std::unexpected(token.error());
    const auto id = json_int(item, "id", 0, kTokenIdLimit - 1, kWhere);
    if (!id) return std::unexpected(id.error());
    token->id = static_cast<int32_t>(*id);
    if (!token->content.empty()) tokens.push_back(std::move(*token));
  }
  return tokens;
}

// Tokens that only tokenizer_config.json's "added_tokens_decoder" ({"id": token}) knows.
Status append_config_tokens(const nlohmann::json& config, std::vector<AddedToken>& tokens) {
  constexpr std::string_view kConfigWhere = "tokenizer_config.json: added_tokens_decoder";
  const nlohmann::json* map = json_field(config, "added_tokens_decoder");
  if (map == nullptr) return {};
  if (!map->is_object())
    return fail(ErrorKind::kDataLoss, fmt::format("{} must be an object", kConfigWhere));
  std::unordered_map<std::string_view, bool> known;
  const size_t count = tokens.size();
  tokens.reserve(count + map->size());  // the keys of `known` point into it
  for (const AddedToken& token : tokens) known.emplace(token.content, true);
  for (auto it = map->begin(); it != map->end(); ++it) {
    auto token = parse_added_token(*it, kConfigWhere);
    if (!token) return std::unexpected(token.error());
    const std::string& key = it.key();
    const bool digits = !key.empty() && key.size() <= 7 &&
                        std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; });
    const int id = digits ? std::stoi(key) : kTokenIdLimit;
    if (id >= kTokenIdLimit)
      return fail(ErrorKind::kDataLoss,
                  fmt::format("{}: \"{}\" is not a token id", kConfigWhere, key));
    token->id = id;
    if (!token->content.empty() && !known.contains(token->content))
      tokens.push_back(std::move(*token));
  }
  return {};
}

// Spans of `text` after append_lossy: each invalid part has become three bytes.
std::vector<TextSpan> lossy_spans(std::string_view text, std::span<const TextSpan> spans) {
  std::vector<size_t> moved(text.size() + 1);  // old offset to new offset
  size_t out = 0;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Prefix prefix = utf8_prefix(text.substr(pos));
    for (size_t i = 0; i < prefix.bytes; ++i) moved[pos + i] = out;
    pos += prefix.bytes;
    out += prefix.kind == Utf8Prefix::Kind::kCharacter ? prefix.bytes : kReplacementChar.size();
  }
  moved[text.size()] = out;
  std::vector<TextSpan> result;
  for (const TextSpan& span : spans)
    if (span.begin < span.end && span.end <= text.size()) {
      const size_t end = moved[span.end];
      // A span that ends inside a part takes the whole of it.
      const bool inside = span.end < text.size() && span.end > 0 && moved[span.end - 1] == end;
      result.push_back({moved[span.begin], inside ? end + kReplacementChar.size() : end});
    }
  return result;
}

std::vector<TextSpan> marked_spans(const MarkedText& text) {
  std::vector<TextSpan> spans;
  for (size_t i = 0; i < text.literal.size(); ++i) {
    if (text.literal[i] == 0) continue;
    if (!spans.empty() && spans.back().end == i) {
      ++spans.back().end;
    } else {
      spans.push_back({i, i + 1});
    }
  }
  return spans;
}

// The string of a token field, which is a string or an object with "content".
std::string token_content(const nlohmann::json& config, std::string_view key) {
  const nlohmann::json* field = json_field(config, key);
  if (field != nullptr && field->is_object()) field = json_field(*field, "content");
  return field != nullptr && field->is_string() ? field->get<std::string>() : std::string();
}

}  // namespace

BpeTokenizer::BpeTokenizer(Bpe bpe, std::vector<AddedToken> added)
    : bpe_(std::move(bpe)), added_(std::move(added)) {}

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::build(const nlohmann::json& json,
                                                       const nlohmann::json& config) {
  if (!json.is_object()) return fail(ErrorKind::kDataLoss, "tokenizer.json: must hold an object");
  auto added = parse_added_tokens(json);
  if (!added) return std::unexpected(added.error());
  if (auto status = append_config_tokens(config, *added); !status)
    return std::unexpected(status.error());
  const nlohmann::json* model = json_field(json, "model");
  if (model == nullptr) return fail(ErrorKind::kDataLoss, "tokenizer.json: there is no \"model\"");
  std::vector<std::string> control_tokens;
  for (const AddedToken& token : *added)
    if (token.special) control_tokens.push_back(token.content);
  auto bpe = Bpe::parse(*model, control_tokens);
  if (!bpe) return std::unexpected(bpe.error());
  std::unique_ptr<BpeTokenizer> tokenizer(new BpeTokenizer(std::move(*bpe), std::move(*added)));
  if (auto status = tokenizer->resolve_added_ids(); !status) return std::unexpected(status.error());
  if (auto status = tokenizer->read_components(json); !status)
    return std::unexpected(status.error());
  if (auto status = tokenizer->apply_config(config); !status)
    return std::unexpected(status.error());
  tokenizer->build_matchers();
  return tokenizer;
}

// A token that the vocabulary has keeps the vocabulary's id; the others take the id the file gives.
Status BpeTokenizer::resolve_added_ids() {
  size_ = bpe_.size();
  std::vector<AddedToken> tokens;
  for (AddedToken& token : added_) {
    if (const auto id = bpe_.id_of(token.content)) {
      token.id = *id;
    } else if (!bpe_.token(token.id).empty()) {
      return fail(ErrorKind::kDataLoss, fmt::format("{}: \"{}\" has the id {} of \"{}\"", kWhere,
                                                    token.content, token.id, bpe_.token(token.id)));
    }
    const auto [it, inserted] = added_by_id_.emplace(token.id, tokens.size());
    if (!inserted) {
      if (tokens[it->second].content == token.content) continue;
      return fail(ErrorKind::kDataLoss,
                  fmt::format("{}: \"{}\" and \"{}\" have the same id {}", kWhere,
                              tokens[it->second].content, token.content, token.id));
    }
    size_ = std::max(size_, token.id + 1);
    tokens.push_back(std::move(token));
  }
  added_ = std::move(tokens);
  for (size_t i = 0; i < added_.size(); ++i) added_by_content_.emplace(added_[i].content, i);
  return {};
}

Status BpeTokenizer::read_components(const nlohmann::json& json) {
  if (const nlohmann::json* normalizer = json_field(json, "normalizer")) {
    auto parsed = parse_normalizer(*normalizer);
    if (!parsed) return std::unexpected(parsed.error());
    normalizer_ = std::move(*parsed);
  }
  if (const nlohmann::json* pre_tokenizer = json_field(json, "pre_tokenizer")) {
    auto parsed = parse_pre_tokenizer(*pre_tokenizer);
    if (!parsed) return std::unexpected(parsed.error());
    pre_tokenizer_ = std::move(*parsed);
  }
  const nlohmann::json* decoder = json_field(json, "decoder");
  if (decoder == nullptr)
    return fail(ErrorKind::kUnsupported, "tokenizer.json: there is no \"decoder\"");
  auto parsed = parse_decoder(*decoder);
  if (!parsed) return std::unexpected(parsed.error());
  decoder_ = std::move(*parsed);
  if (const nlohmann::json* post_processor = json_field(json, "post_processor")) {
    auto post = parse_post_processor(*post_processor);
    if (!post) return std::unexpected(post.error());
    post_processor_ = std::move(*post);
  }
  for (const auto* ids : {&post_processor_.prefix, &post_processor_.suffix})
    for (const int32_t id : *ids)
      if (token(id).empty())
        return fail(ErrorKind::kDataLoss,
                    fmt::format("tokenizer.json: post_processor: no token has the id {}", id));
  return {};
}

// The Llama and Gemma classes of transformers build the post-processor from two flags, whatever
// tokenizer.json says.
Status BpeTokenizer::apply_config(const nlohmann::json& config) {
  const std::string tokenizer_class = token_content(config, "tokenizer_class");
  const bool from_flags = tokenizer_class.starts_with("Llama") ||
                          tokenizer_class.starts_with("CodeLlama") ||
                          tokenizer_class.starts_with("Gemma");
  if (!from_flags) return {};
  for (const auto& [flag, name, ids] :
       {std::tuple{"add_bos_token", "bos_token", &post_processor_.prefix},
        std::tuple{"add_eos_token", "eos_token", &post_processor_.suffix}}) {
    const nlohmann::json* field = json_field(config, flag);
    if (field == nullptr || !field->is_boolean()) continue;
    const auto id = id_of(token_content(config, name));
    if (!field->get<bool>()) {
      ids->clear();
    } else if (id) {
      ids->assign(1, *id);
    }
  }
  return {};
}

void BpeTokenizer::build_matchers() {
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (const AddedToken& token : added_) {
    if (!token.normalized || normalizer_ == nullptr) {
      raw.push_back(token);
      continue;
    }
    AddedToken copy = token;
    MarkedText content{token.content, {}};
    normalizer_->apply(content);
    copy.content = std::move(content.text);
    normalized.push_back(std::move(copy));
  }
  raw_matcher_ = AddedTokenMatcher(std::move(raw));
  normalized_matcher_ = AddedTokenMatcher(std::move(normalized));
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text,
                                          const EncodeOptions& options) const {
  if (!is_valid_utf8(text)) {
    const std::vector<TextSpan> spans = lossy_spans(text, options.literal);
    std::string valid;
    append_lossy(valid, text);
    return encode(valid, {options.add_special_tokens, spans});
  }
  std::vector<int32_t> ids;
  if (options.add_special_tokens) ids = post_processor_.prefix;
  raw_matcher_.split(text, options.literal, [&](const AddedToken* token, size_t begin, size_t end) {
    if (token != nullptr) {
      ids.push_back(token->id);
      return;
    }
    MarkedText piece{std::string(text.substr(begin, end - begin)), {}};
    if (!normalized_matcher_.empty() && !options.literal.empty()) {
      piece.literal.assign(end - begin, 0);
      for (const TextSpan& span : options.literal)
        for (size_t i = std::max(span.begin, begin); i < std::min(span.end, end); ++i)
          piece.literal[i - begin] = 1;
    }
    encode_text(std::move(piece), begin == 0, ids);
  });
  if (options.add_special_tokens)
    ids.insert(ids.end(), post_processor_.suffix.begin(), post_processor_.suffix.end());
  return ids;
}

// Text between the added tokens that are looked for as written.
void BpeTokenizer::encode_text(MarkedText text, bool at_start, std::vector<int32_t>& ids) const {
  if (normalizer_ != nullptr) normalizer_->apply(text);
  if (normalized_matcher_.empty()) {
    encode_normalized(std::move(text.text), at_start, ids);
    return;
  }
  const std::vector<TextSpan> literal = marked_spans(text);
  normalized_matcher_.split(
      text.text, literal, [&](const AddedToken* token, size_t begin, size_t end) {
        if (token != nullptr) {
          ids.push_back(token->id);
        } else {
          encode_normalized(text.text.substr(begin, end - begin), at_start && begin == 0, ids);
        }
      });
}

void BpeTokenizer::encode_normalized(std::string text, bool at_start,
                                     std::vector<int32_t>& ids) const {
  if (text.empty()) return;
  const size_t size = text.size();
  Words words{std::move(text), {{0, size, at_start}}};
  if (pre_tokenizer_ != nullptr) pre_tokenizer_->apply(words);
  for (const Words::Word& word : words.words) bpe_.encode(words.word(word), ids);
}

std::string BpeTokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    const std::string_view text = token(id);
    if (text.empty() || (skip_special_tokens && is_special(id))) continue;
    tokens.emplace_back(text);
  }
  decoder_->apply(tokens);
  std::string text;
  for (const std::string& part : tokens) text += part;
  return text;
}

std::optional<int32_t> BpeTokenizer::id_of(std::string_view token) const {
  if (const auto it = added_by_content_.find(token); it != added_by_content_.end())
    return added_[it->second].id;
  return bpe_.id_of(token);
}

std::string_view BpeTokenizer::token(int32_t id) const {
  if (const auto it = added_by_id_.find(id); it != added_by_id_.end())
    return added_[it->second].content;
  return bpe_.token(id);
}

bool BpeTokenizer::is_special(int32_t id) const {
  const auto it = added_by_id_.find(id);
  return it != added_by_id_.end() && added_[it->second].special;
}

std::string BpeTokenizer::token_bytes(int32_t id) const {
  return decoder_->bytes(std::string(token(id)));
}

}  // namespace hs
