#include "grammar/schema_formats.h"

#include <fmt/format.h>

namespace hs {
namespace {

// Formats as patterns of RFC 3339, RFC 4122, RFC 2673; email is the form that HTML takes.
constexpr std::string_view kDate = "\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])";
constexpr std::string_view kTime =
    "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)";
constexpr std::string_view kByte = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

}  // namespace

std::optional<std::string> format_pattern(std::string_view format) {
  if (format == "date") return std::string(kDate);
  if (format == "time") return std::string(kTime);
  if (format == "date-time") return fmt::format("{}T{}", kDate, kTime);
  if (format == "uuid") return "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
  if (format == "ipv4") return fmt::format("{0}\\.{0}\\.{0}\\.{0}", kByte);
  if (format == "email") {
    return "[a-zA-Z0-9_%+-]{1,32}(\\.[a-zA-Z0-9_%+-]{1,32}){0,3}"
           "@[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?"
           "(\\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?){1,4}";
  }
  return std::nullopt;
}

}  // namespace hs
