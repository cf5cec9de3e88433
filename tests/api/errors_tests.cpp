// Proves the table from failures to statuses and OpenAI's error object.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "api/errors.h"

namespace hs {
namespace {

nlohmann::json object(const Error& error) {
  return nlohmann::json::parse(error_json(error))["error"];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(errors_tests)

BOOST_AUTO_TEST_CASE(each_kind_has_its_status) {
  const auto status = [](ErrorKind kind) { return http_status({kind, "m", "", ""}); };
  BOOST_TEST(status(ErrorKind::kInvalidArgument) == 400);
  BOOST_TEST(status(ErrorKind::kTooLarge) == 400);
  BOOST_TEST(status(ErrorKind::kUnsupported) == 400);
  BOOST_TEST(status(ErrorKind::kNotFound) == 404);
  BOOST_TEST(status(ErrorKind::kResourceExhausted) == 503);
  BOOST_TEST(status(ErrorKind::kUnavailable) == 503);
  BOOST_TEST(status(ErrorKind::kInternal) == 500);
  BOOST_TEST(status(ErrorKind::kIo) == 500);
  BOOST_TEST(status(ErrorKind::kDataLoss) == 500);
  BOOST_TEST(http_status({ErrorKind::kTooLarge, "m", "request_too_large", ""}) == 413);
  BOOST_TEST(http_status({ErrorKind::kInvalidArgument, "m", "host_not_allowed", ""}) == 403);
}

BOOST_AUTO_TEST_CASE(all_four_fields_are_always_there) {
  const auto full = object({ErrorKind::kInvalidArgument, "Say \"what\".", "invalid_value", "n"});
  BOOST_TEST(
      full.dump() ==
      R"({"code":"invalid_value","message":"Say \"what\".","param":"n","type":"invalid_request_error"})");
  const auto bare = object({ErrorKind::kInvalidArgument, "m", "", ""});
  BOOST_TEST(bare["param"].is_null());
  BOOST_TEST(bare["code"].is_null());
}

BOOST_AUTO_TEST_CASE(what_goes_wrong_inside_stays_inside) {
  const auto inside = object({ErrorKind::kIo, "/secret/path failed", "", ""});
  BOOST_TEST(inside["message"].get<std::string>().find("secret") == std::string::npos);
  BOOST_TEST(inside["type"] == "server_error");
  BOOST_TEST(inside["code"] == "engine_error");
}

BOOST_AUTO_TEST_CASE(only_unavailable_asks_to_retry) {
  const auto has_retry = [](const Error& error) {
    for (const HttpHeader& header : error_response(error).headers)
      if (header.name == "Retry-After") return true;
    return false;
  };
  BOOST_TEST(has_retry({ErrorKind::kResourceExhausted, "m", "queue_full", ""}));
  BOOST_TEST(!has_retry({ErrorKind::kInternal, "m", "", ""}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
