// Request bodies to JSON values, with limits that keep hostile bodies harmless.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/status.h"

namespace hs {

struct JsonLimits {
  size_t depth_max = 64;          // nested arrays and objects
  size_t values_max = 1'000'000;  // each costs memory, however short its text is
};

// One JSON text (RFC 8259) in UTF-8; a byte order mark in front is skipped. Of duplicate keys the
// last counts. Errors: kInvalidArgument "invalid_json" with the byte offset; never any of the text.
Result<nlohmann::json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace hs
