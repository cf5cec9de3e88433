#include "grammar/schema_types.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hs {
namespace {

using Json = nlohmann::ordered_json;

// The types that values of a schema may have; all where it does not say.
std::set<std::string_view> possible_types(const Json& schema) {
  std::set<std::string_view> types;
  if (!schema.is_object()) return {std::begin(kSchemaTypes), std::end(kSchemaTypes)};
  if (schema.contains("const")) {
    types.insert(schema_type_of(schema["const"]));
  } else if (schema.contains("enum") && schema["enum"].is_array()) {
    for (const Json& one : schema["enum"]) types.insert(schema_type_of(one));
  } else if (schema.contains("type")) {
    const Json list = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    for (const std::string_view type : kSchemaTypes) {
      if (std::ranges::find(list, Json(std::string(type))) != list.end()) types.insert(type);
    }
  } else {
    types.insert(std::begin(kSchemaTypes), std::end(kSchemaTypes));
  }
  if (types.contains("number")) types.insert("integer");
  return types;
}

std::optional<std::vector<Json>> constants_of(const Json& schema) {
  if (!schema.is_object()) return std::nullopt;
  if (schema.contains("const")) return std::vector<Json>{schema["const"]};
  if (!schema.contains("enum") || !schema["enum"].is_array()) return std::nullopt;
  return std::vector<Json>(schema["enum"].begin(), schema["enum"].end());
}

bool share_none(const Json& a, const Json& b) {
  const auto left = constants_of(a), right = constants_of(b);
  return left && right && std::ranges::none_of(*left, [&](const Json& one) {
           return std::ranges::find(*right, one) != right->end();
         });
}

bool requires_property(const Json& schema, const std::string& name) {
  return schema.contains("required") && schema["required"].is_array() &&
         std::ranges::find(schema["required"], Json(name)) != schema["required"].end();
}

}  // namespace

std::string_view schema_type_of(const Json& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  const bool whole =
      value.is_number_integer() || std::floor(value.get<double>()) == value.get<double>();
  return whole ? "integer" : "number";
}

bool is_of_type(const Json& value, std::string_view type) {
  const std::string_view own = schema_type_of(value);
  return own == type || (own == "integer" && type == "number");
}

bool exclude_each_other(const Json& a, const Json& b,
                        FunctionRef<const Json&(const Json&)> resolved) {
  const std::set<std::string_view> left = possible_types(a), right = possible_types(b);
  const bool share_type =
      std::ranges::any_of(left, [&](std::string_view type) { return right.contains(type); });
  if (!share_type || share_none(a, b)) return true;
  if (!a.is_object() || !b.is_object() || left.size() != 1 || !left.contains("object") ||
      right != left || !a.contains("properties") || !b.contains("properties") ||
      !a["properties"].is_object() || !b["properties"].is_object())
    return false;
  return std::ranges::any_of(a["properties"].items(), [&](const auto& property) {
    const std::string& name = property.key();
    return b["properties"].contains(name) && requires_property(a, name) &&
           requires_property(b, name) &&
           share_none(resolved(property.value()), resolved(b["properties"][name]));
  });
}

}  // namespace hs
