// The description of all routes (OpenAPI 3.1), as src/api/openapi.json holds it.
#pragma once

#include <string_view>

namespace hs {

std::string_view openapi_json();

}  // namespace hs
