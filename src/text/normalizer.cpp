#include "text/normalizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "text/json_fields.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace hs {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: normalizer";

// The mark of a range as a whole: literal where any of its bytes is.
uint8_t mark_of(const MarkedText& in, size_t begin, size_t end) {
  if (!in.marked()) return 0;
  const auto first = in.literal.begin();
  return std::any_of(first + static_cast<std::ptrdiff_t>(begin),
                     first + static_cast<std::ptrdiff_t>(end),
                     [](uint8_t mark) { return mark != 0; })
             ? 1
             : 0;
}

void copy_range(const MarkedText& in, size_t begin, size_t end, MarkedText& out) {
  out.text.append(in.text, begin, end - begin);
  if (in.marked())
    out.literal.insert(out.literal.end(), in.literal.begin() + static_cast<std::ptrdiff_t>(begin),
                       in.literal.begin() + static_cast<std::ptrdiff_t>(end));
}

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts)
      : parts_(std::move(parts)) {}
  void apply(MarkedText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form) : form_(form) {}

  void apply(MarkedText& text) const override {
    if (is_ascii(text.text)) return;
    if (!text.marked()) {
      text.text = normal_form(text.text, form_);
      return;
    }
    // No character combines across the start of an ASCII character: marks are kept segment by
    // segment.
    MarkedText out;
    for (size_t begin = 0; begin < text.text.size();) {
      size_t end = begin + 1;
      while (end < text.text.size() && static_cast<unsigned char>(text.text[end]) >= 0x80) ++end;
      const std::string_view segment = std::string_view(text.text).substr(begin, end - begin);
      const std::string normal = normal_form(segment, form_);
      if (normal == segment) {
        copy_range(text, begin, end, out);
      } else {
        out.append(normal, true, mark_of(text, begin, end));
      }
      begin = end;
    }
    text = std::move(out);
  }

 private:
  NormalForm form_;
};

class LowercaseNormalizer final : public Normalizer {
 public:
  void apply(MarkedText& text) const override {
    MarkedText out;
    for (size_t pos = 0; pos < text.text.size();) {
      const size_t begin = pos;
      std::string lower;
      append_lower(lower, next_char(text.text, pos));
      out.append(lower, text.marked(), mark_of(text, begin, pos));
    }
    text = std::move(out);
  }
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}

  void apply(MarkedText& text) const override {
    size_t end = text.text.size();
    while (right_ && end > 0) {
      size_t pos = end;
      if (!is_whitespace(previous_char(text.text, pos))) break;
      end = pos;
    }
    size_t begin = 0;
    while (left_ && begin < end) {
      size_t pos = begin;
      if (!is_whitespace(next_char(text.text, pos))) break;
      begin = pos;
    }
    MarkedText out;
    copy_range(text, begin, end, out);
    text = std::move(out);
  }

 private:
  bool left_;
  bool right_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void apply(MarkedText& text) const override {
    MarkedText out;
    size_t done = 0;
    pattern_.for_each(text.text, [&](size_t begin, size_t end) {
      copy_range(text, done, begin, out);
      out.append(content_, text.marked(), mark_of(text, begin, end));
      done = end;
    });
    if (done == 0 && out.text.empty()) return;
    copy_range(text, done, text.text.size(), out);
    text = std::move(out);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string content) : content_(std::move(content)) {}
  void apply(MarkedText& text) const override {
    if (text.text.empty()) return;
    text.text.insert(0, content_);
    if (text.marked())
      text.literal.insert(text.literal.begin(), content_.size(), text.literal.front());
  }

 private:
  std::string content_;
};

Result<std::unique_ptr<Normalizer>> parse_sequence(const nlohmann::json& json) {
  const nlohmann::json* list = json_field(json, "normalizers");
  if (list == nullptr || !list->is_array())
    return fail(ErrorKind::kDataLoss, fmt::format("{}: \"normalizers\" must be an array", kWhere));
  std::vector<std::unique_ptr<Normalizer>> parts;
  for (const nlohmann::json& item : *list) {
    auto part = parse_normalizer(item);
    if (!part) return part;
    parts.push_back(std::move(*part));
  }
  return std::make_unique<SequenceNormalizer>(std::move(parts));
}

Result<std::unique_ptr<Normalizer>> parse_strip(const nlohmann::json& json) {
  const auto left = json_bool(json, "strip_left", true, kWhere);
  if (!left) return std::unexpected(left.error());
  const auto right = json_bool(json, "strip_right", true, kWhere);
  if (!right) return std::unexpected(right.error());
  return std::make_unique<StripNormalizer>(*left, *right);
}

Result<std::unique_ptr<Normalizer>> parse_replace(const nlohmann::json& json) {
  auto pattern = Pattern::parse(json, kWhere);
  if (!pattern) return std::unexpected(pattern.error());
  auto content = json_string(json, "content", kWhere);
  if (!content) return std::unexpected(content.error());
  return std::make_unique<ReplaceNormalizer>(std::move(*pattern), std::move(*content));
}

}  // namespace

Result<std::unique_ptr<Normalizer>> parse_normalizer(const nlohmann::json& json) {
  const auto type = json_string(json, "type", kWhere);
  if (!type) return std::unexpected(type.error());
  if (*type == "Sequence") return parse_sequence(json);
  if (*type == "NFC") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfc);
  if (*type == "NFD") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfd);
  if (*type == "NFKC") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfkc);
  if (*type == "NFKD") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfkd);
  if (*type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  if (*type == "Strip") return parse_strip(json);
  if (*type == "Replace") return parse_replace(json);
  if (*type == "Prepend") {
    auto content = json_string(json, "prepend", kWhere);
    if (!content) return std::unexpected(content.error());
    return std::make_unique<PrependNormalizer>(std::move(*content));
  }
  return fail(ErrorKind::kUnsupported,
              fmt::format("{} of type \"{}\" is not supported", kWhere, *type));
}

}  // namespace hs
