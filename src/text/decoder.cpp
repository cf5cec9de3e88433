#include "text/decoder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "text/byte_level.h"
#include "text/json_fields.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace hs {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: decoder";

std::string join(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

class SequenceDecoder final : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<Decoder>> parts)
      : parts_(std::move(parts)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (const auto& part : parts_) part->apply(tokens);
  }
  std::string bytes(std::string token) const override {
    for (const auto& part : parts_) token = part->bytes(std::move(token));
    return token;
  }
  size_t leading_spaces_dropped() const override {
    size_t count = 0;
    for (const auto& part : parts_) count += part->leading_spaces_dropped();
    return count;
  }
  bool drops_spaces_of_first_token() const override {
    for (const auto& part : parts_)
      if (part->drops_spaces_of_first_token()) return true;
    return false;
  }

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

class ReplaceDecoder final : public Decoder {
 public:
  ReplaceDecoder(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) token = bytes(std::move(token));
  }
  std::string bytes(std::string token) const override {
    if (!is_valid_utf8(token))
      return token;  // bytes of a character: a component before this one made them
    std::string out;
    size_t done = 0;
    pattern_.for_each(token, [&](size_t begin, size_t end) {
      out.append(token, done, begin - done);
      out += content_;
      done = end;
    });
    out.append(token, done);
    return out;
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// <0xNN> stands for a byte. A run of them that is not valid UTF-8 becomes one U+FFFD a byte.
class ByteFallbackDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string run;
    const auto flush = [&] {
      if (run.empty()) return;
      if (is_valid_utf8(run)) {
        out.push_back(run);
      } else {
        for (size_t i = 0; i < run.size(); ++i) out.emplace_back(kReplacementChar);
      }
      run.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_of(token)) {
        run += static_cast<char>(*byte);
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(out);
  }
  std::string bytes(std::string token) const override {
    const auto byte = byte_of(token);
    return byte ? std::string(1, static_cast<char>(*byte)) : token;
  }

 private:
  static std::optional<uint8_t> byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    unsigned value = 0;
    for (const char c : token.substr(3, 2)) {
      const bool digit = c >= '0' && c <= '9';
      const char lower = static_cast<char>(c | 0x20);
      if (!digit && (lower < 'a' || lower > 'f')) return std::nullopt;
      value = value * 16 + static_cast<unsigned>(digit ? c - '0' : lower - 'a' + 10);
    }
    return static_cast<uint8_t>(value);
  }
};

class FuseDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string text = join(tokens);
    tokens.assign(1, std::move(text));
  }
  std::string bytes(std::string token) const override { return token; }
};

// Strips up to so many of one character from both ends; only ever used behind Fuse, where it sees
// the whole text.
class StripDecoder final : public Decoder {
 public:
  StripDecoder(std::string content, size_t start, size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      size_t begin = 0;
      for (size_t i = 0; i < start_ && std::string_view(token).substr(begin).starts_with(content_);
           ++i)
        begin += content_.size();
      size_t end = token.size();
      for (size_t i = 0; i < stop_ && end > begin &&
                         std::string_view(token).substr(begin, end - begin).ends_with(content_);
           ++i)
        end -= content_.size();
      token = token.substr(begin, end - begin);
    }
  }
  std::string bytes(std::string token) const override { return token; }
  size_t leading_spaces_dropped() const override { return content_ == " " ? start_ : 0; }

 private:
  std::string content_;
  size_t start_;
  size_t stop_;
};

class ByteLevelDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string raw;
    for (const std::string& token : tokens) raw += stand_in_bytes(token);
    std::string text;
    text.reserve(raw.size());
    append_lossy(text, raw);
    tokens.assign(1, std::move(text));
  }
  std::string bytes(std::string token) const override { return stand_in_bytes(token); }
};

class MetaspaceDecoder final : public Decoder {
 public:
  MetaspaceDecoder(std::string replacement, bool drop_first)
      : replacement_(std::move(replacement)), drop_first_(drop_first) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], i == 0 && drop_first_ ? "" : " ");
  }
  std::string bytes(std::string token) const override { return replaced(token, " "); }
  bool drops_spaces_of_first_token() const override { return drop_first_; }

 private:
  std::string replaced(std::string_view token, std::string_view by) const {
    std::string out;
    size_t done = 0;
    for (size_t pos = token.find(replacement_); pos != std::string_view::npos;
         pos = token.find(replacement_, done)) {
      out += token.substr(done, pos - done);
      out += by;
      done = pos + replacement_.size();
    }
    out += token.substr(done);
    return out;
  }

  std::string replacement_;
  bool drop_first_;
};

Result<std::unique_ptr<Decoder>> parse_sequence(const nlohmann::json& json) {
  const nlohmann::json* list = json_field(json, "decoders");
  if (list == nullptr || !list->is_array())
    return fail(ErrorKind::kDataLoss, fmt::format("{}: \"decoders\" must be an array", kWhere));
  std::vector<std::unique_ptr<Decoder>> parts;
  for (const nlohmann::json& item : *list) {
    auto part = parse_decoder(item);
    if (!part) return part;
    parts.push_back(std::move(*part));
  }
  return std::make_unique<SequenceDecoder>(std::move(parts));
}

Result<std::unique_ptr<Decoder>> parse_replace(const nlohmann::json& json) {
  auto pattern = Pattern::parse(json, kWhere);
  if (!pattern) return std::unexpected(pattern.error());
  auto content = json_string(json, "content", kWhere);
  if (!content) return std::unexpected(content.error());
  return std::make_unique<ReplaceDecoder>(std::move(*pattern), std::move(*content));
}

Result<std::unique_ptr<Decoder>> parse_strip(const nlohmann::json& json) {
  auto content = json_string(json, "content", kWhere);
  if (!content) return std::unexpected(content.error());
  if (content->empty() || utf8_length(*content, 0) != content->size())
    return fail(ErrorKind::kDataLoss,
                fmt::format("{}: \"content\" of Strip must be one character", kWhere));
  const auto start = json_int(json, "start", 0, 1024, kWhere);
  if (!start) return std::unexpected(start.error());
  const auto stop = json_int(json, "stop", 0, 1024, kWhere);
  if (!stop) return std::unexpected(stop.error());
  return std::make_unique<StripDecoder>(std::move(*content), static_cast<size_t>(*start),
                                        static_cast<size_t>(*stop));
}

Result<std::unique_ptr<Decoder>> parse_metaspace(const nlohmann::json& json) {
  auto replacement = json_string(json, "replacement", kWhere);
  if (!replacement) return std::unexpected(replacement.error());
  if (replacement->empty())
    return fail(ErrorKind::kDataLoss, fmt::format("{}: \"replacement\" must not be empty", kWhere));
  const auto add_prefix_space = json_bool(json, "add_prefix_space", true, kWhere);
  if (!add_prefix_space) return std::unexpected(add_prefix_space.error());
  bool drop_first = *add_prefix_space;
  if (json_field(json, "prepend_scheme") != nullptr) {
    const auto scheme = json_string(json, "prepend_scheme", kWhere);
    if (!scheme) return std::unexpected(scheme.error());
    drop_first = *scheme != "never";
  }
  return std::make_unique<MetaspaceDecoder>(std::move(*replacement), drop_first);
}

}  // namespace

Result<std::unique_ptr<Decoder>> parse_decoder(const nlohmann::json& json) {
  const auto type = json_string(json, "type", kWhere);
  if (!type) return std::unexpected(type.error());
  if (*type == "Sequence") return parse_sequence(json);
  if (*type == "Replace") return parse_replace(json);
  if (*type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (*type == "Fuse") return std::make_unique<FuseDecoder>();
  if (*type == "Strip") return parse_strip(json);
  if (*type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (*type == "Metaspace") return parse_metaspace(json);
  return fail(ErrorKind::kUnsupported,
              fmt::format("{} of type \"{}\" is not supported", kWhere, *type));
}

}  // namespace hs
