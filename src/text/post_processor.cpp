#include "text/post_processor.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/bpe.h"
#include "text/json_fields.h"

namespace hs {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: post_processor";

std::unexpected<Error> damaged(std::string_view what) {
  return fail(ErrorKind::kDataLoss, fmt::format("{}: {}", kWhere, what));
}

// Appends the ids that the template's special token stands for.
Status append_special(const nlohmann::json& specials, const std::string& name,
                      std::vector<int32_t>& ids) {
  const nlohmann::json* special = json_field(specials, name);
  const nlohmann::json* list = special == nullptr ? nullptr : json_field(*special, "ids");
  if (list == nullptr || !list->is_array())
    return damaged(fmt::format("\"special_tokens\" lacks the ids of \"{}\"", name));
  for (const nlohmann::json& id : *list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(kTokenIdLimit))
      return damaged(fmt::format("an id of \"{}\" is out of range", name));
    ids.push_back(id.get<int32_t>());
  }
  return {};
}

Result<PostProcessor> parse_template(const nlohmann::json& json) {
  const nlohmann::json* single = json_field(json, "single");
  if (single == nullptr || !single->is_array()) return damaged("\"single\" must be an array");
  const nlohmann::json* specials = json_field(json, "special_tokens");
  const nlohmann::json none = nlohmann::json::object();
  PostProcessor result;
  bool text_seen = false;
  for (const nlohmann::json& piece : *single) {
    if (const nlohmann::json* special = json_field(piece, "SpecialToken")) {
      const auto name = json_string(*special, "id", kWhere);
      if (!name) return std::unexpected(name.error());
      auto& ids = text_seen ? result.suffix : result.prefix;
      if (auto status = append_special(specials == nullptr ? none : *specials, *name, ids); !status)
        return std::unexpected(status.error());
    } else if (json_field(piece, "Sequence") != nullptr && !text_seen) {
      text_seen = true;
    } else {
      return damaged("\"single\" must hold special tokens and one sequence");
    }
  }
  if (!text_seen) return damaged("\"single\" has no sequence");
  return result;
}

Result<PostProcessor> parse_sequence(const nlohmann::json& json) {
  const nlohmann::json* list = json_field(json, "processors");
  if (list == nullptr || !list->is_array()) return damaged("\"processors\" must be an array");
  PostProcessor result;
  for (const nlohmann::json& item : *list) {
    auto part = parse_post_processor(item);
    if (!part) return part;
    result.prefix.insert(result.prefix.begin(), part->prefix.begin(), part->prefix.end());
    result.suffix.insert(result.suffix.end(), part->suffix.begin(), part->suffix.end());
  }
  return result;
}

// "cls" and "sep" are pairs [token, id].
Result<PostProcessor> parse_bert(const nlohmann::json& json) {
  PostProcessor result;
  for (const auto& [key, ids] :
       {std::pair{"cls", &result.prefix}, std::pair{"sep", &result.suffix}}) {
    const nlohmann::json* pair = json_field(json, key);
    const bool good = pair != nullptr && pair->is_array() && pair->size() == 2 &&
                      (*pair)[1].is_number_unsigned() &&
                      (*pair)[1].get<uint64_t>() < static_cast<uint64_t>(kTokenIdLimit);
    if (!good) return damaged(fmt::format("\"{}\" must be a token and its id", key));
    ids->push_back((*pair)[1].get<int32_t>());
  }
  return result;
}

}  // namespace

Result<PostProcessor> parse_post_processor(const nlohmann::json& json) {
  const auto type = json_string(json, "type", kWhere);
  if (!type) return std::unexpected(type.error());
  if (*type == "TemplateProcessing") return parse_template(json);
  if (*type == "ByteLevel") return PostProcessor{};  // changes offsets, which nobody here asks for
  if (*type == "Sequence") return parse_sequence(json);
  if (*type == "BertProcessing" || *type == "RobertaProcessing") return parse_bert(json);
  return fail(ErrorKind::kUnsupported,
              fmt::format("{} of type \"{}\" is not supported", kWhere, *type));
}

}  // namespace hs
