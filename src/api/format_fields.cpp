#include "api/format_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace hs {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kChoicesMax = 1000;

// name, schema, strict and description, as they stand in chats below json_schema and in responses
// beside the type. `field`: the top-level field, for complaints.
void read_json_schema(ObjectReader& body, const char* field, const std::string& place,
                      const json& value, std::string schema, AnswerForm& form) {
  const auto complain = [&](std::string_view what) {
    body.fail_field(field, fmt::format("'{}{}", place, what));
  };
  if (!value.is_object()) return complain("' must be an object.");
  const json* name = value.contains("name") ? &value["name"] : nullptr;
  if (name == nullptr || !name->is_string() || !is_form_name(name->get_ref<const std::string&>()))
    return complain(
        fmt::format(".name' must have 1 to {} letters, digits, _ or -.", kFormNameBytesMax));
  if (value.contains("strict") && !value["strict"].is_boolean() && !value["strict"].is_null())
    return complain(".strict' must be true or false.");
  if (!value.contains("schema")) return complain(".schema' is missing.");
  form = {Grammar::Language::kJsonSchema, std::move(schema), place + ".schema"};
}

void read_choices(ObjectReader& body, const json& choices, AnswerForm& form) {
  const bool fits = choices.is_array() && !choices.empty() && choices.size() <= kChoicesMax &&
                    std::ranges::all_of(choices, [](const json& choice) {
                      return choice.is_string() && !choice.get_ref<const std::string&>().empty();
                    });
  if (!fits)
    return body.fail_field("structured_outputs",
                           fmt::format("'structured_outputs.choice' must be a list of 1 to {} "
                                       "strings, none of them empty.",
                                       kChoicesMax));
  form = {Grammar::Language::kChoice, choices.dump(-1, ' ', false, json::error_handler_t::replace),
          "structured_outputs.choice"};
}

}  // namespace

bool is_form_name(std::string_view name) {
  return !name.empty() && name.size() <= kFormNameBytesMax && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

std::string json_part_in_order(std::string_view text, std::initializer_list<const char*> keys) {
  // Everything beside the first key is passed over, pictures for one.
  const std::string first = *keys.begin();
  const auto keep = [&](int depth, ordered_json::parse_event_t event, ordered_json& parsed) {
    return depth != 1 || event != ordered_json::parse_event_t::key || parsed == first;
  };
  const ordered_json body = ordered_json::parse(text, keep, false);
  const ordered_json* at = &body;
  for (const char* key : keys) {
    if (!at->is_object() || !at->contains(key)) return {};
    at = &(*at)[key];
  }
  return at->dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void read_response_format(ObjectReader& body, std::string_view text, AnswerForm& form) {
  const json* format = body.any("response_format");
  if (format == nullptr) return;
  const auto type = format->is_object() ? format->find("type") : format->end();
  if (!format->is_object() || type == format->end() || !type->is_string())
    return body.fail_field("response_format", "'response_format' must be an object with a type.");
  if (*type == "text") return;
  if (*type == "json_object") {
    form = {Grammar::Language::kJsonObject, "", "response_format"};
    return;
  }
  if (*type != "json_schema")
    return body.fail_field("response_format",
                           "'response_format.type' must be text, json_object or json_schema.");
  read_json_schema(body, "response_format", "response_format.json_schema",
                   format->value("json_schema", json()),
                   json_part_in_order(text, {"response_format", "json_schema", "schema"}), form);
}

void read_text_format(ObjectReader& body, std::string_view text, AnswerForm& form) {
  const json* options = body.any("text");
  if (options == nullptr) return;
  if (!options->is_object())
    return body.fail_field("text", "'text' must be an object.", ErrorKind::kInvalidArgument,
                           "invalid_type");
  if (!options->contains("format")) return;
  const json& format = (*options)["format"];
  const json type = format.is_object() ? format.value("type", json()) : json();
  if (!type.is_string())
    return body.fail_field("text", "'text.format' must be an object with a type.");
  if (type == "text") return;
  if (type == "json_object") {
    form = {Grammar::Language::kJsonObject, "", "text.format"};
    return;
  }
  if (type != "json_schema")
    return body.fail_field("text", "'text.format.type' must be text, json_object or json_schema.");
  read_json_schema(body, "text", "text.format", format,
                   json_part_in_order(text, {"text", "format", "schema"}), form);
}

void read_structured_outputs(ObjectReader& body, std::string_view text, AnswerForm& form) {
  const json* wanted = body.any("structured_outputs");
  if (wanted == nullptr) return;
  const auto complain = [&](std::string_view what) {
    body.fail_field("structured_outputs", fmt::format("'structured_outputs{}", what));
  };
  if (!wanted->is_object() || wanted->size() != 1)
    return complain("' must be an object with one of json, json_object, regex and choice.");
  if (form.language) return complain("' and 'response_format' exclude each other.");
  const std::string key = wanted->begin().key();
  const json& value = wanted->begin().value();
  if (key == "choice") return read_choices(body, value, form);
  if (key == "regex") {
    if (!value.is_string()) return complain(".regex' must be a string.");
    form = {Grammar::Language::kRegex, value.get<std::string>(), "structured_outputs.regex"};
  } else if (key == "json") {
    if (!value.is_object()) return complain(".json' must be a JSON Schema.");
    form = {Grammar::Language::kJsonSchema,
            json_part_in_order(text, {"structured_outputs", "json"}), "structured_outputs.json"};
  } else if (key == "json_object") {
    if (!value.is_boolean()) return complain(".json_object' must be true or false.");
    if (value.get<bool>())
      form = {Grammar::Language::kJsonObject, "", "structured_outputs.json_object"};
  } else {
    body.fail_field("structured_outputs",
                    fmt::format("'structured_outputs.{}' is not supported; use json, json_object, "
                                "regex or choice.",
                                key),
                    ErrorKind::kUnsupported, "unsupported_parameter");
  }
}

Error form_error(const Error& error, const AnswerForm& form) {
  Error ours = error;
  const bool whole = error.param.empty() || error.param == "schema";
  ours.param = whole ? form.param : fmt::format("{}.{}", form.param, error.param);
  if (ours.code.empty()) ours.code = "invalid_value";
  return ours;
}

}  // namespace hs
