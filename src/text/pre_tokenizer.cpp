#include "text/pre_tokenizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "text/byte_level.h"
#include "text/json_fields.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace hs {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: pre_tokenizer";
// The splitting that ByteLevel does itself where "use_regex" is true (GPT-2's).
constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct Part {
  size_t begin;
  size_t end;
  bool matched;
};

// Joins the parts of one word as `behavior` says and hands each resulting range to `keep`.
void join_parts(const std::vector<Part>& parts, Behavior behavior,
                FunctionRef<void(size_t, size_t)> keep) {
  size_t begin = 0;   // of the range being built
  bool open = false;  // whether there is one
  bool last_matched = false;
  const auto close = [&](size_t end) {
    if (open && end > begin) keep(begin, end);
    open = false;
  };
  for (const Part& part : parts) {
    bool joins = false;  // whether the part continues the open range
    switch (behavior) {
      case Behavior::kRemoved:
      case Behavior::kIsolated:
        break;
      case Behavior::kMergedWithPrevious:
        joins = part.matched && !last_matched;
        break;
      case Behavior::kMergedWithNext:
        joins = !part.matched && last_matched;
        break;
      case Behavior::kContiguous:
        joins = part.matched == last_matched;
        break;
    }
    if (!(joins && open)) {
      close(part.begin);
      begin = part.begin;
      open = !(behavior == Behavior::kRemoved && part.matched);
    }
    last_matched = part.matched;
  }
  if (!parts.empty()) close(parts.back().end);
}

class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(Pattern pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void apply(Words& words) const override {
    std::vector<Words::Word> out;
    std::vector<Part> parts;
    for (const Words::Word& word : words.words) {
      find_parts(words.word(word), parts);
      join_parts(parts, behavior_, [&](size_t begin, size_t end) {
        out.push_back({word.begin + begin, word.begin + end, word.at_start && begin == 0});
      });
    }
    words.words = std::move(out);
  }

 private:
  void find_parts(std::string_view word, std::vector<Part>& parts) const {
    parts.clear();
    size_t done = 0;
    pattern_.for_each(word, [&](size_t begin, size_t end) {
      if (begin > done) parts.push_back({done, begin, invert_});
      parts.push_back({begin, end, !invert_});
      done = end;
    });
    if (done < word.size()) parts.push_back({done, word.size(), invert_});
  }

  Pattern pattern_;
  Behavior behavior_;
  bool invert_;
};

// Splits by a property of single characters, without a regex.
class CharSplitPreTokenizer final : public PreTokenizer {
 public:
  CharSplitPreTokenizer(bool (*matches)(char32_t), Behavior behavior)
      : matches_(matches), behavior_(behavior) {}

  void apply(Words& words) const override {
    std::vector<Words::Word> out;
    std::vector<Part> parts;
    for (const Words::Word& word : words.words) {
      const std::string_view text = words.word(word);
      parts.clear();
      for (size_t pos = 0; pos < text.size();) {
        const size_t begin = pos;
        const bool matched = matches_(next_char(text, pos));
        if (!matched && !parts.empty() && !parts.back().matched) {
          parts.back().end = pos;
        } else {
          parts.push_back({begin, pos, matched});
        }
      }
      join_parts(parts, behavior_, [&](size_t begin, size_t end) {
        out.push_back({word.begin + begin, word.begin + end, word.at_start && begin == 0});
      });
    }
    words.words = std::move(out);
  }

 private:
  bool (*matches_)(char32_t);
  Behavior behavior_;
};

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, std::optional<SplitPreTokenizer> split)
      : add_prefix_space_(add_prefix_space), split_(std::move(split)) {}

  void apply(Words& words) const override {
    if (add_prefix_space_) add_spaces(words);
    if (split_) split_->apply(words);
    std::string out;
    out.reserve(words.text.size() * 2);
    for (Words::Word& word : words.words) {
      const size_t begin = out.size();
      for (const char c : words.word(word)) out += byte_stand_in(static_cast<uint8_t>(c));
      word.begin = begin;
      word.end = out.size();
    }
    words.text = std::move(out);
  }

 private:
  static void add_spaces(Words& words) {
    std::string out;
    out.reserve(words.text.size() + words.words.size());
    for (Words::Word& word : words.words) {
      const std::string_view text = words.word(word);
      const size_t begin = out.size();
      if (!text.starts_with(' ')) out += ' ';
      out += text;
      word.begin = begin;
      word.end = out.size();
    }
    words.text = std::move(out);
  }

  bool add_prefix_space_;
  std::optional<SplitPreTokenizer> split_;
};

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  enum class Prepend { kAlways, kFirst, kNever };
  MetaspacePreTokenizer(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}

  void apply(Words& words) const override {
    std::string out;
    std::vector<Words::Word> ranges;
    out.reserve(words.text.size() * 2);
    for (const Words::Word& word : words.words) {
      const size_t begin = out.size();
      for (const char c : words.word(word)) {
        if (c == ' ')
          out += replacement_;
        else
          out += c;
      }
      const bool wanted =
          prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && word.at_start);
      if (wanted && !std::string_view(out).substr(begin).starts_with(replacement_))
        out.insert(begin, replacement_);
      append_ranges(out, begin, word.at_start, ranges);
    }
    words.text = std::move(out);
    words.words = std::move(ranges);
  }

 private:
  // The words of out[begin, end): split before each replacement character, or whole.
  void append_ranges(const std::string& out, size_t begin, bool at_start,
                     std::vector<Words::Word>& ranges) const {
    size_t start = begin;
    while (split_) {
      const size_t next = out.find(replacement_, start + 1);
      if (next == std::string::npos) break;
      ranges.push_back({start, next, at_start && start == begin});
      start = next;
    }
    if (start < out.size()) ranges.push_back({start, out.size(), at_start && start == begin});
  }

  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  void apply(Words& words) const override {
    for (const auto& part : parts_) part->apply(words);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

Result<Behavior> parse_behavior(const nlohmann::json& json) {
  const auto name = json_string(json, "behavior", kWhere);
  if (!name) return std::unexpected(name.error());
  if (*name == "Removed") return Behavior::kRemoved;
  if (*name == "Isolated") return Behavior::kIsolated;
  if (*name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (*name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (*name == "Contiguous") return Behavior::kContiguous;
  return fail(ErrorKind::kUnsupported,
              fmt::format("{}: behavior \"{}\" is not supported", kWhere, *name));
}

Result<std::unique_ptr<PreTokenizer>> parse_sequence(const nlohmann::json& json) {
  const nlohmann::json* list = json_field(json, "pretokenizers");
  if (list == nullptr || !list->is_array())
    return fail(ErrorKind::kDataLoss,
                fmt::format("{}: \"pretokenizers\" must be an array", kWhere));
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  for (const nlohmann::json& item : *list) {
    auto part = parse_pre_tokenizer(item);
    if (!part) return part;
    parts.push_back(std::move(*part));
  }
  return std::make_unique<SequencePreTokenizer>(std::move(parts));
}

Result<std::unique_ptr<PreTokenizer>> parse_split(const nlohmann::json& json) {
  auto pattern = Pattern::parse(json, kWhere);
  if (!pattern) return std::unexpected(pattern.error());
  const auto behavior = parse_behavior(json);
  if (!behavior) return std::unexpected(behavior.error());
  const auto invert = json_bool(json, "invert", false, kWhere);
  if (!invert) return std::unexpected(invert.error());
  return std::make_unique<SplitPreTokenizer>(std::move(*pattern), *behavior, *invert);
}

Result<std::unique_ptr<PreTokenizer>> parse_byte_level(const nlohmann::json& json) {
  const auto add_prefix_space = json_bool(json, "add_prefix_space", true, kWhere);
  if (!add_prefix_space) return std::unexpected(add_prefix_space.error());
  const auto use_regex = json_bool(json, "use_regex", true, kWhere);
  if (!use_regex) return std::unexpected(use_regex.error());
  std::optional<SplitPreTokenizer> split;
  if (*use_regex) {
    auto pattern = Pattern::regex(kGpt2Regex);
    if (!pattern) return std::unexpected(pattern.error());
    split.emplace(std::move(*pattern), Behavior::kIsolated, false);
  }
  return std::make_unique<ByteLevelPreTokenizer>(*add_prefix_space, std::move(split));
}

Result<std::unique_ptr<PreTokenizer>> parse_metaspace(const nlohmann::json& json) {
  using Prepend = MetaspacePreTokenizer::Prepend;
  auto replacement = json_string(json, "replacement", kWhere);
  if (!replacement) return std::unexpected(replacement.error());
  if (replacement->empty() || utf8_length(*replacement, 0) != replacement->size())
    return fail(ErrorKind::kDataLoss,
                fmt::format("{}: \"replacement\" must be one character", kWhere));
  const auto split = json_bool(json, "split", true, kWhere);
  if (!split) return std::unexpected(split.error());
  const auto add_prefix_space = json_bool(json, "add_prefix_space", true, kWhere);
  if (!add_prefix_space) return std::unexpected(add_prefix_space.error());
  Prepend prepend = *add_prefix_space ? Prepend::kAlways : Prepend::kNever;
  if (json_field(json, "prepend_scheme") != nullptr) {
    const auto scheme = json_string(json, "prepend_scheme", kWhere);
    if (!scheme) return std::unexpected(scheme.error());
    if (*scheme != "always" && *scheme != "first" && *scheme != "never")
      return fail(ErrorKind::kUnsupported,
                  fmt::format("{}: prepend_scheme \"{}\" is not supported", kWhere, *scheme));
    prepend = *scheme == "always"  ? Prepend::kAlways
              : *scheme == "first" ? Prepend::kFirst
                                   : Prepend::kNever;
  }
  return std::make_unique<MetaspacePreTokenizer>(std::move(*replacement), prepend, *split);
}

}  // namespace

Result<std::unique_ptr<PreTokenizer>> parse_pre_tokenizer(const nlohmann::json& json) {
  const auto type = json_string(json, "type", kWhere);
  if (!type) return std::unexpected(type.error());
  if (*type == "Sequence") return parse_sequence(json);
  if (*type == "Split") return parse_split(json);
  if (*type == "ByteLevel") return parse_byte_level(json);
  if (*type == "Metaspace") return parse_metaspace(json);
  if (*type == "WhitespaceSplit")
    return std::make_unique<CharSplitPreTokenizer>(&is_whitespace, Behavior::kRemoved);
  if (*type == "Digits") {
    const auto individual = json_bool(json, "individual_digits", false, kWhere);
    if (!individual) return std::unexpected(individual.error());
    return std::make_unique<CharSplitPreTokenizer>(
        &is_number, *individual ? Behavior::kIsolated : Behavior::kContiguous);
  }
  if (*type == "Punctuation") {
    Behavior behavior = Behavior::kIsolated;
    if (json_field(json, "behavior") != nullptr) {
      const auto given = parse_behavior(json);
      if (!given) return std::unexpected(given.error());
      behavior = *given;
    }
    return std::make_unique<CharSplitPreTokenizer>(&is_punctuation, behavior);
  }
  if (*type == "Whitespace") {
    auto pattern = Pattern::regex(R"(\w+|[^\w\s]+)");
    if (!pattern) return std::unexpected(pattern.error());
    return std::make_unique<SplitPreTokenizer>(std::move(*pattern), Behavior::kRemoved, true);
  }
  return fail(ErrorKind::kUnsupported,
              fmt::format("{} of type \"{}\" is not supported", kWhere, *type));
}

}  // namespace hs
