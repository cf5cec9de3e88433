// Reads fields of a parsed JSON file whose types cannot be trusted. `where` names the object in
// error messages.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hs {

// The field, or null where `object` is no object or lacks it (or has a JSON null there).
const nlohmann::json* json_field(const nlohmann::json& object, std::string_view key);
Result<std::string> json_string(const nlohmann::json& object, std::string_view key,
                                std::string_view where);
Result<bool> json_bool(const nlohmann::json& object, std::string_view key, bool absent,
                       std::string_view where);
// An integer in [min, max].
Result<int64_t> json_int(const nlohmann::json& object, std::string_view key, int64_t min,
                         int64_t max, std::string_view where);
// Parses a text, with a limit on nesting; `what` names it ("tokenizer.json").
Result<nlohmann::json> json_parse(std::string_view text, std::string_view what);
// Reads a whole file of at most `bytes_max`; kNotFound where there is none.
Result<std::string> read_text_file(const std::string& path, size_t bytes_max);

}  // namespace hs
