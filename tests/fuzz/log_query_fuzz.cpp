// Any query of the request log becomes a filter within its bounds, or an error with a code; and any
// text in a row comes out as a JSON text.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "api/log_rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto query = hs::parse_log_query(text);
  if (query ? query->filter.limit < 1 || query->filter.limit > 20'000 : query.error().code.empty())
    std::abort();
  hs::RequestRow row;
  row.id = row.model = row.error_code = text;
  if (!nlohmann::json::accept(hs::log_row_json(row))) std::abort();
  return 0;
}
