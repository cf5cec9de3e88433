#include "grammar/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "grammar/json_parts.h"
#include "grammar/pattern_parser.h"
#include "grammar/schema_formats.h"
#include "grammar/schema_types.h"

namespace hs {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kSchemaBytesMax = 256 << 10;
constexpr int kDepthMax = 64;
constexpr int32_t kCountMax = 1 << 20;
constexpr int32_t kUnlimited = ExpressionPool::kUnlimited;

constexpr std::string_view kAnnotations[] = {
    "title",    "description", "default",          "examples",        "$schema",      "$id",
    "$comment", "deprecated",  "readOnly",         "writeOnly",       "$defs",        "definitions",
    "strict",   "name",        "contentMediaType", "contentEncoding", "discriminator"};
constexpr std::string_view kOf[] = {"anyOf", "oneOf", "allOf", "$ref", "enum", "const", "type"};
// Keyword and the type that it speaks of.
constexpr std::pair<std::string_view, std::string_view> kOfTypes[] = {
    {"properties", "object"}, {"required", "object"},         {"additionalProperties", "object"},
    {"items", "array"},       {"prefixItems", "array"},       {"minItems", "array"},
    {"maxItems", "array"},    {"minLength", "string"},        {"maxLength", "string"},
    {"pattern", "string"},    {"format", "string"},           {"minimum", "number"},
    {"maximum", "number"},    {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"}};
template <typename List, typename T>
bool is_among(const List& list, const T& one) {
  return std::ranges::find(list, one) != std::ranges::end(list);
}

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

class SchemaParser {
 public:
  SchemaParser(ExpressionPool& pool, const Json& root) : pool_(pool), parts_(pool), root_(root) {}

  Result<Expr> parse() {
    const Result<Expr> all = value(root_, "", 0);
    if (!all) return all;
    for (const auto& [name, rule] : rules_) {
      if (pool_.begins_with_itself(rule))
        return wrong("$ref", name + " refers to itself without end");
    }
    return all;
  }

 private:
  static std::unexpected<Error> wrong(const std::string& path, std::string_view what) {
    return fail(ErrorKind::kInvalidArgument, fmt::format("{}.", what), "invalid_json_schema",
                path.empty() ? "schema" : path);
  }
  static std::unexpected<Error> unsupported(const std::string& path, std::string_view what) {
    return fail(ErrorKind::kUnsupported, fmt::format("{} is not supported here.", what),
                "unsupported_json_schema", path.empty() ? "schema" : path);
  }

  Result<Expr> value(const Json& schema, const std::string& path, int depth) {
    if (depth > kDepthMax) return wrong(path, "The schema is nested too deeply");
    if (schema.is_boolean()) {
      if (schema.get<bool>()) return parts_.value();
      return wrong(path, "The schema false allows no value");
    }
    if (!schema.is_object()) return wrong(path, "A schema must be an object or a boolean");
    if (const Status known = check_keywords(schema, path); !known)
      return std::unexpected(known.error());
    Result<Expr> result = parts_.value();
    if (schema.contains("$ref")) {
      result = reference(schema, path, depth);
    } else if (schema.contains("const") || schema.contains("enum")) {
      result = constants(schema, path);
    } else if (schema.contains("anyOf") || schema.contains("oneOf")) {
      result = branches(schema, path, depth);
    } else if (schema.contains("allOf")) {
      result = all_of(schema, path, depth);
    } else {
      result = of_types(schema, path, depth);
    }
    if (result && *result == kNoText) return wrong(path, "The schema allows no value");
    return result;
  }

  static Status check_keywords(const Json& schema, const std::string& path) {
    for (const auto& [key, unused] : schema.items()) {
      const bool known =
          is_among(kAnnotations, std::string_view(key)) || is_among(kOf, std::string_view(key)) ||
          std::ranges::any_of(kOfTypes, [&](const auto& one) { return one.first == key; });
      if (!known) return unsupported(join(path, key), fmt::format("The keyword '{}'", key));
    }
    return {};
  }

  // Refuses keywords beside `own` that are more than annotations.
  static Status alone(const Json& schema, const std::string& path,
                      std::initializer_list<std::string_view> own) {
    for (const auto& [key, unused] : schema.items()) {
      if (std::ranges::find(own, std::string_view(key)) != own.end()) continue;
      if (is_among(kAnnotations, std::string_view(key))) continue;
      return unsupported(join(path, key),
                         fmt::format("The keyword '{}' beside '{}'", key, *own.begin()));
    }
    return {};
  }

  // ---- references

  const Json* find(const std::string& pointer) const {
    if (pointer == "#") return &root_;
    if (!pointer.starts_with("#/")) return nullptr;
    try {
      const Json::json_pointer at(pointer.substr(1));
      return root_.contains(at) ? &root_.at(at) : nullptr;
    } catch (const Json::exception&) {
      return nullptr;
    }
  }

  Result<Expr> reference(const Json& schema, const std::string& path, int depth) {
    if (const Status only = alone(schema, path, {"$ref"}); !only)
      return std::unexpected(only.error());
    const std::string at = join(path, "$ref");
    if (!schema["$ref"].is_string()) return wrong(at, "A reference must be a string");
    const std::string pointer = schema["$ref"].get<std::string>();
    const Json* target = find(pointer);
    if (target == nullptr) return wrong(at, fmt::format("'{}' is not in this schema", pointer));
    if (const auto known = rules_.find(pointer); known != rules_.end()) return known->second;
    const Expr rule = pool_.new_rule();
    rules_.emplace(pointer, rule);
    const Result<Expr> body = value(*target, pointer, depth + 1);
    if (!body) return body;
    pool_.define(rule, *body);
    return rule;
  }

  // The schema that a chain of references ends at.
  const Json& resolved(const Json& schema) const {
    const Json* at = &schema;
    for (int i = 0; i < kDepthMax && at->is_object() && at->contains("$ref"); ++i) {
      const Json& ref = (*at)["$ref"];
      const Json* next = ref.is_string() ? find(ref.get<std::string>()) : nullptr;
      if (next == nullptr) break;
      at = next;
    }
    return *at;
  }

  // ---- constants and branches

  Result<Expr> constants(const Json& schema, const std::string& path) {
    if (const Status only =
            alone(schema, path, {schema.contains("const") ? "const" : "enum", "type"});
        !only)
      return std::unexpected(only.error());
    std::vector<Json> values;
    if (schema.contains("const")) {
      values.push_back(schema["const"]);
    } else {
      if (!schema["enum"].is_array() || schema["enum"].empty())
        return wrong(join(path, "enum"), "enum must be an array with values");
      values.assign(schema["enum"].begin(), schema["enum"].end());
    }
    const Result<std::vector<std::string>> types = types_of(schema, path);
    if (!types) return std::unexpected(types.error());
    std::vector<Expr> options;
    for (const Json& one : values) {
      const bool fits = !schema.contains("type") ||
                        std::ranges::any_of(
                            *types, [&](const std::string& type) { return is_of_type(one, type); });
      if (fits) options.push_back(parts_.constant(one.dump()));
    }
    return pool_.either(options);
  }

  Result<Expr> branches(const Json& schema, const std::string& path, int depth) {
    const bool any = schema.contains("anyOf");
    const std::string key = any ? "anyOf" : "oneOf";
    if (const Status only = alone(schema, path, {any ? "anyOf" : "oneOf"}); !only)
      return std::unexpected(only.error());
    const Json& list = schema[key];
    const std::string at = join(path, key);
    if (!list.is_array() || list.empty()) return wrong(at, key + " must be an array with schemas");
    std::vector<Expr> options;
    for (size_t i = 0; i < list.size(); ++i) {
      for (size_t k = 0; !any && k < i; ++k) {
        if (!exclude_each_other(resolved(list[k]), resolved(list[i]),
                                [this](const Json& one) -> const Json& { return resolved(one); }))
          return unsupported(fmt::format("{}[{}]", at, i),
                             "oneOf whose branches may hold at once (use anyOf)");
      }
      const Result<Expr> option = value(list[i], fmt::format("{}[{}]", at, i), depth + 1);
      if (!option) return option;
      options.push_back(*option);
    }
    return pool_.either(options);
  }

  // One schema, or objects whose properties are put together.
  Result<Expr> all_of(const Json& schema, const std::string& path, int depth) {
    const Json& list = schema["allOf"];
    const std::string at = join(path, "allOf");
    if (!list.is_array() || list.empty()) return wrong(at, "allOf must be an array with schemas");
    if (list.size() == 1 && alone(schema, path, {"allOf"}))
      return value(list[0], at + "[0]", depth + 1);
    Json all = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
    Json own = schema;
    own.erase("allOf");
    std::vector<std::pair<std::string, Json>> pieces;
    for (size_t i = 0; i < list.size(); ++i)
      pieces.emplace_back(fmt::format("{}[{}]", at, i), resolved(list[i]));
    pieces.emplace_back(path, own);
    for (const auto& [where, piece] : pieces) {
      if (const Status added = add_to_object(piece, where, all); !added)
        return std::unexpected(added.error());
    }
    return of_types(all, path, depth);
  }

  static Status add_to_object(const Json& piece, const std::string& path, Json& all) {
    if (!piece.is_object() || (piece.contains("type") && piece["type"] != "object"))
      return unsupported(path, "allOf of schemas that are not all of objects");
    if (const Status only = alone(piece, path, {"properties", "required", "type"}); !only)
      return only;
    if (piece.contains("properties") && piece["properties"].is_object()) {
      for (const auto& [name, one] : piece["properties"].items()) {
        if (all["properties"].contains(name))
          return unsupported(join(path, "properties." + name), "allOf that names a property twice");
        all["properties"][name] = one;
      }
    }
    if (piece.contains("required") && piece["required"].is_array()) {
      for (const Json& name : piece["required"]) all["required"].push_back(name);
    }
    return {};
  }

  // ---- types

  // As `type` says, or as the keywords let one see; empty: any.
  static Result<std::vector<std::string>> types_of(const Json& schema, const std::string& path) {
    std::vector<std::string> types;
    if (schema.contains("type")) {
      const Json list = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
      for (const Json& type : list) {
        const bool known =
            type.is_string() &&
            is_among(kSchemaTypes, std::string_view(type.get_ref<const std::string&>()));
        if (!known)
          return wrong(join(path, "type"), "A type must be one of JSON's, or a list of them");
        types.push_back(type.get<std::string>());
      }
      if (types.empty()) return wrong(join(path, "type"), "The list of types is empty");
      return types;
    }
    for (const auto& [keyword, type] : kOfTypes) {
      if (schema.contains(keyword) && !is_among(types, type)) types.emplace_back(type);
    }
    return types;
  }

  Result<Expr> of_types(const Json& schema, const std::string& path, int depth) {
    const Result<std::vector<std::string>> types = types_of(schema, path);
    if (!types) return std::unexpected(types.error());
    if (types->empty()) return parts_.value();
    std::vector<Expr> options;
    for (const std::string& type : *types) {
      const Result<Expr> one = of_type(type, schema, path, depth);
      if (!one) return one;
      options.push_back(*one);
    }
    return pool_.either(options);
  }

  Result<Expr> of_type(const std::string& type, const Json& schema, const std::string& path,
                       int depth) {
    if (type == "object") return object(schema, path, depth);
    if (type == "array") return array(schema, path, depth);
    if (type == "string") return string(schema, path);
    if (type == "integer" || type == "number") return number(schema, path, type == "integer");
    return type == "boolean" ? parts_.boolean() : parts_.null();
  }

  static Result<int32_t> count(const Json& schema, std::string_view key, int32_t absent,
                               const std::string& path) {
    if (!schema.contains(key)) return absent;
    const Json& given = schema[std::string(key)];
    const bool fits = given.is_number() && given.get<double>() >= 0 &&
                      given.get<double>() <= kCountMax &&
                      std::floor(given.get<double>()) == given.get<double>();
    if (!fits)
      return wrong(join(path, key),
                   fmt::format("{} must be an integer of 0 to {}", key, kCountMax));
    return static_cast<int32_t>(given.get<double>());
  }

  Result<Expr> string(const Json& schema, const std::string& path) {
    const Result<int32_t> min = count(schema, "minLength", 0, path);
    const Result<int32_t> max = count(schema, "maxLength", kUnlimited, path);
    if (!min) return std::unexpected(min.error());
    if (!max) return std::unexpected(max.error());
    if (*max != kUnlimited && *min > *max)
      return wrong(join(path, "minLength"), "minLength is more than maxLength");
    const bool has_length = schema.contains("minLength") || schema.contains("maxLength");
    const bool has_pattern = schema.contains("pattern"), has_format = schema.contains("format");
    if (has_pattern && has_format)
      return unsupported(join(path, "format"), "The keyword 'format' beside 'pattern'");
    if (!has_pattern && !has_format)
      return parts_.quoted(pool_.repeat(parts_.string_char(), *min, *max));
    const std::string key = has_pattern ? "pattern" : "format";
    if (has_length)
      return unsupported(join(path, key), fmt::format("The keyword '{}' beside a length", key));
    if (!schema[key].is_string()) return wrong(join(path, key), key + " must be a string");
    const std::string text = schema[key].get<std::string>();
    const std::optional<std::string> pattern = has_pattern ? text : format_pattern(text);
    if (!pattern) return unsupported(join(path, key), fmt::format("The format '{}'", text));
    const auto char_of = [this](const CodePointSet& set) {
      return json_string_char_of(pool_, set);
    };
    const Result<Expr> body = parse_pattern(pool_, *pattern, {.whole = has_format}, char_of);
    if (!body) {
      return fail(body.error().kind, body.error().message, "invalid_json_schema", join(path, key));
    }
    return parts_.quoted(*body);
  }

  // A whole number, or nothing where the keyword is absent.
  static Result<std::optional<int64_t>> bound(const Json& schema, const std::string& key,
                                              const std::string& path) {
    if (!schema.contains(key)) return std::optional<int64_t>();
    const Json& given = schema[key];
    if (!given.is_number()) return wrong(join(path, key), key + " must be a number");
    constexpr double kMost = 9e15;  // all whole numbers below are exact
    const double number = given.get<double>();
    if (std::floor(number) != number || std::abs(number) > kMost)
      return unsupported(join(path, key),
                         fmt::format("A {} that is no whole number below 9e15", key));
    return std::optional<int64_t>(static_cast<int64_t>(number));
  }

  Result<Expr> number(const Json& schema, const std::string& path, bool whole) {
    JsonParts::Bound min, max;
    for (const bool exclusive : {false, true}) {
      const auto low = bound(schema, exclusive ? "exclusiveMinimum" : "minimum", path);
      const auto high = bound(schema, exclusive ? "exclusiveMaximum" : "maximum", path);
      if (!low) return std::unexpected(low.error());
      if (!high) return std::unexpected(high.error());
      // Of an inclusive and an exclusive one the exclusive one decides where it is as narrow.
      if (*low && (!min.value || **low >= *min.value))
        min = {.value = *low, .exclusive = exclusive};
      if (*high && (!max.value || **high <= *max.value))
        max = {.value = *high, .exclusive = exclusive};
    }
    if (!min.value && !max.value) return whole ? parts_.integer() : parts_.number();
    if (!whole) return parts_.number_between(min, max);
    if (min.value && min.exclusive) ++*min.value;
    if (max.value && max.exclusive) --*max.value;
    return parts_.integer_between(min.value, max.value);
  }

  Result<Expr> array(const Json& schema, const std::string& path, int depth) {
    const Result<int32_t> min = count(schema, "minItems", 0, path);
    const Result<int32_t> max = count(schema, "maxItems", kUnlimited, path);
    if (!min) return std::unexpected(min.error());
    if (!max) return std::unexpected(max.error());
    if (*max != kUnlimited && *min > *max)
      return wrong(join(path, "minItems"), "minItems is more than maxItems");
    Result<Expr> item = parts_.value();
    const bool no_more = schema.contains("items") && schema["items"] == false;
    if (schema.contains("items") && !no_more) {
      if (schema["items"].is_array())
        return unsupported(join(path, "items"), "A list of items (use prefixItems)");
      item = value(schema["items"], join(path, "items"), depth + 1);
      if (!item) return item;
    }
    if (!schema.contains("prefixItems")) return parts_.array_of(*item, *min, no_more ? 0 : *max);
    return tuple(schema, path, depth, no_more ? kNoText : *item, *min, *max);
  }

  // prefixItems: those up to minItems must be there, the others may.
  Result<Expr> tuple(const Json& schema, const std::string& path, int depth, Expr more, int32_t min,
                     int32_t max) {
    const Json& list = schema["prefixItems"];
    const std::string at = join(path, "prefixItems");
    if (!list.is_array()) return wrong(at, "prefixItems must be an array of schemas");
    const auto n = static_cast<int32_t>(list.size());
    const Expr comma = pool_.sequence({pool_.literal(","), parts_.space()});
    const Expr close = pool_.sequence({parts_.space(), pool_.literal("]")});
    const int32_t most = max == kUnlimited ? kUnlimited : std::max(max - n, 0);
    const int32_t least = std::max(min - n, 0);
    if (more == kNoText && least > 0) return kNoText;
    Expr rest = more == kNoText
                    ? kEmptyText
                    : pool_.repeat(pool_.sequence({n > 0 ? comma : kEmptyText, more}), least, most);
    for (int32_t i = n - 1; i >= 0; --i) {
      const Result<Expr> item =
          value(list[static_cast<size_t>(i)], fmt::format("{}[{}]", at, i), depth + 1);
      if (!item) return item;
      rest = pool_.sequence({i > 0 ? comma : kEmptyText, *item, rest});
      if (max != kUnlimited && i >= max) rest = kEmptyText;
      if (i >= min) rest = pool_.optional(rest);
    }
    return pool_.sequence({pool_.literal("["), parts_.space(), rest, close});
  }

  struct Property {
    std::string name;
    Expr value = kNoText;
    bool is_required = false;
  };

  Result<Expr> object(const Json& schema, const std::string& path, int depth) {
    const bool has_more = schema.contains("additionalProperties");
    const bool closed = has_more && schema["additionalProperties"] == false;
    const bool any = !schema.contains("properties") && !schema.contains("required");
    Expr more = kNoText;
    if (has_more && !closed) {
      const Result<Expr> others =
          value(schema["additionalProperties"], join(path, "additionalProperties"), depth + 1);
      if (!others) return others;
      more = *others;
    } else if (any && !closed) {
      return parts_.object();
    }
    Result<std::vector<Property>> properties = properties_of(schema, path, depth, more, closed);
    if (!properties) return std::unexpected(properties.error());
    return members(*properties, more);
  }

  Result<std::vector<Property>> properties_of(const Json& schema, const std::string& path,
                                              int depth, Expr more, bool closed) {
    std::vector<Property> properties;
    if (schema.contains("properties")) {
      const std::string at = join(path, "properties");
      if (!schema["properties"].is_object()) return wrong(at, "properties must be an object");
      for (const auto& [name, one] : schema["properties"].items()) {
        const Result<Expr> its_value = value(one, join(at, name), depth + 1);
        if (!its_value) return std::unexpected(its_value.error());
        properties.push_back({.name = name, .value = *its_value});
      }
    }
    if (!schema.contains("required")) return properties;
    const std::string at = join(path, "required");
    if (!schema["required"].is_array()) return wrong(at, "required must be an array of names");
    for (const Json& name : schema["required"]) {
      if (!name.is_string()) return wrong(at, "required must be an array of names");
      const auto known = std::ranges::find(properties, name.get<std::string>(), &Property::name);
      if (known != properties.end()) {
        known->is_required = true;
        continue;
      }
      if (closed)
        return wrong(at, fmt::format("'{}' is required, but not among the properties",
                                     name.get<std::string>()));
      properties.push_back({.name = name.get<std::string>(),
                            .value = more == kNoText ? parts_.value() : more,
                            .is_required = true});
    }
    return properties;
  }

  // From the last property to the first: what may follow once a member was written, and before.
  Expr members(const std::vector<Property>& properties, Expr more) {
    const Expr comma = pool_.sequence({pool_.literal(","), parts_.space()});
    const Expr colon = pool_.sequence({pool_.literal(":"), parts_.space()});
    Expr after = parts_.space(), before = kEmptyText;  // up to the closing bracket
    if (more != kNoText) {
      std::vector<std::string> names;
      for (const Property& property : properties) names.push_back(property.name);
      const Expr member = pool_.sequence({parts_.other_key(names), colon, more});
      after = pool_.sequence({pool_.any_number_of(pool_.sequence({comma, member})), after});
      before = pool_.optional(pool_.sequence({member, after}));
    }
    for (size_t i = properties.size(); i-- > 0;) {
      const Property& property = properties[i];
      const Expr member =
          pool_.sequence({parts_.constant(Json(property.name).dump()), colon, property.value});
      const Expr with = pool_.sequence({member, after});
      const Expr with_comma = pool_.sequence({comma, with});
      before = property.is_required ? with : pool_.either({with, before});
      after = property.is_required ? with_comma : pool_.either({with_comma, after});
    }
    return pool_.sequence({pool_.literal("{"), parts_.space(), before, pool_.literal("}")});
  }

  ExpressionPool& pool_;
  JsonParts parts_;
  const Json& root_;
  std::map<std::string, Expr> rules_;
};

}  // namespace

Result<Expr> parse_json_schema(ExpressionPool& pool, std::string_view schema) {
  if (schema.size() > kSchemaBytesMax) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("The schema has more than {} KiB.", kSchemaBytesMax >> 10),
                "invalid_json_schema", "schema");
  }
  bool too_deep = false;
  const auto limit = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > 4 * kDepthMax;
    return !too_deep;
  };
  const Json root = Json::parse(schema, limit, false);
  if (root.is_discarded() || too_deep) {
    return fail(ErrorKind::kInvalidArgument, "The schema is not valid JSON or nested too deeply.",
                "invalid_json_schema", "schema");
  }
  return SchemaParser(pool, root).parse();
}

}  // namespace hs
