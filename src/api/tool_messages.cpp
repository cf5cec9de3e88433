#include "api/tool_messages.h"

#include <nlohmann/json.hpp>
#include <string>

#include "api/json_parser.h"
#include "api/json_writer.h"

namespace hs {
namespace {

using nlohmann::ordered_json;

std::string arguments_json(std::string_view arguments) {
  const auto parsed = parse_json(arguments);  // has limits
  if (!parsed || !parsed->is_object()) return json_string(arguments);
  return ordered_json::parse(arguments, nullptr, false)
      .dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

void add_tool_call(ChatMessage& message, std::string_view id, std::string_view name,
                   std::string_view arguments) {
  std::string& calls = message.tool_calls_json;
  if (calls.empty())
    calls = "[";
  else
    calls.back() = ',';
  calls += "{\"id\":";
  append_json_string(calls, id);
  calls += R"(,"type":"function","function":{"name":)";
  append_json_string(calls, name);
  calls += ",\"arguments\":" + arguments_json(arguments) + "}}]";
}

}  // namespace hs
