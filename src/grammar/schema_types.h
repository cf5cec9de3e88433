// The types of JSON Schema, and what one sees of a schema without reading it whole.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/function_ref.h"

namespace hs {

constexpr std::string_view kSchemaTypes[] = {"object",  "array",   "string", "number",
                                             "integer", "boolean", "null"};

// Of a JSON value: one of kSchemaTypes. A whole number is an "integer", however it is written.
std::string_view schema_type_of(const nlohmann::ordered_json& value);
bool is_of_type(const nlohmann::ordered_json& value, std::string_view type);

// Whether no value satisfies both, as far as types and constants show: their own, or those of a
// property that both require. `resolved` follows a schema's references.
bool exclude_each_other(
    const nlohmann::ordered_json& a, const nlohmann::ordered_json& b,
    FunctionRef<const nlohmann::ordered_json&(const nlohmann::ordered_json&)> resolved);

}  // namespace hs
