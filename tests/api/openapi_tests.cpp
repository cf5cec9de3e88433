// Proves that the description which is served names every route and method that is answered, and
// nothing else; that its references lead somewhere; and that it knows the fields that are read.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "api/chat_request.h"
#include "api/completion_request.h"
#include "api/fixture.h"
#include "api/response_request.h"

namespace hs::test {

using nlohmann::json;

namespace {

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return out;
}

void check_references(const json& node, const json& whole) {
  if (node.is_object() && node.contains("$ref")) {
    const std::string target = node["$ref"];
    BOOST_TEST(target.starts_with("#/"), target);
    BOOST_TEST(whole.contains(json::json_pointer(target.substr(1))), target);
  }
  if (node.is_structured())
    for (const json& child : node) check_references(child, whole);
}

// A request whose every field that the schema names is null reads as if nothing were unknown.
template <typename Request>
void read_all_as_null(Status (*parse)(std::string_view, const RequestLimits&, Request&),
                      const json& schema, json body, Request& request) {
  for (const auto& [name, property] : schema["properties"].items())
    if (!body.contains(name)) body[name] = nullptr;
  const Status parsed = parse(body.dump(), {}, request);
  BOOST_TEST(parsed.has_value(), (parsed ? "" : parsed.error().message));
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(openapi_tests, ApiFixture)

BOOST_AUTO_TEST_CASE(every_route_is_described_and_every_description_is_a_route) {
  const auto writer = get("/openapi.json");
  BOOST_TEST(writer->status == 200);
  BOOST_TEST(writer->header("Content-Type") == "application/json");
  const json paths = writer->json()["paths"];
  std::set<std::string> described;
  for (const auto& [path, methods] : paths.items())
    for (const auto& [method, operation] : methods.items()) described.insert(method + " " + path);
  std::set<std::string> served;
  for (const auto& [path, method] : ApiHandler::served_routes())
    served.insert(lower(method) + " " + std::string(path));
  for (const std::string& route : served)
    BOOST_TEST(described.contains(route),
               "src/api/openapi.json lacks '" << route << "', which the server answers");
  for (const std::string& route : described)
    BOOST_TEST(served.contains(route),
               "src/api/openapi.json has '" << route << "', which the server does not answer");
}

BOOST_AUTO_TEST_CASE(references_lead_somewhere) {
  const json whole = get("/openapi.json")->json();
  check_references(whole, whole);
}

BOOST_AUTO_TEST_CASE(described_fields_are_known_to_the_parsers) {
  const json schemas = get("/openapi.json")->json()["components"]["schemas"];
  ChatRequest chat;
  read_all_as_null(parse_chat_request, schemas["ChatRequest"],
                   {{"model", "m"}, {"messages", {{{"role", "user"}, {"content", "x"}}}}}, chat);
  BOOST_TEST(chat.labels.unknown_fields.empty());
  CompletionRequest completion;
  read_all_as_null(parse_completion_request, schemas["CompletionRequest"],
                   {{"model", "m"}, {"prompt", "x"}}, completion);
  BOOST_TEST(completion.labels.unknown_fields.empty());
  ResponseRequest response;
  read_all_as_null(parse_response_request, schemas["ResponseRequest"],
                   {{"model", "m"}, {"input", "x"}}, response);
  BOOST_TEST(response.chat.labels.unknown_fields.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
