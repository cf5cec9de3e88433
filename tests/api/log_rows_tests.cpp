// Proves what may be asked of the request log, and that rows become valid JSON and CSV.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/log_rows.h"

namespace hs {
namespace {

using nlohmann::json;

std::vector<RequestRow> two_rows() {
  RequestRow first;
  first.id = "=cmd()\"x\"";
  first.ts_ms = 5;
  first.status = 200;
  first.model = "a,b";
  first.n_images = 0;
  first.stream = true;
  first.params_json = R"({"seed":1})";
  RequestRow second;
  second.id = "second\xff";
  second.error_code = "queue_full";
  return {first, second};
}

BOOST_AUTO_TEST_SUITE(log_rows_tests)

BOOST_AUTO_TEST_CASE(a_query_becomes_a_filter) {
  const auto query = parse_log_query(
      "since_ms=10&until_ms=20&status=failed&model=m&id=i&images=1&limit=3&format=csv");
  BOOST_TEST_REQUIRE(query.has_value());
  const RequestFilter& filter = query->filter;
  BOOST_TEST(filter.since_ms == 10);
  BOOST_TEST(filter.until_ms == 20);
  BOOST_TEST(filter.status_min == 400);
  BOOST_TEST(filter.status_max == INT64_MAX);
  BOOST_TEST(filter.model == "m");
  BOOST_TEST(filter.id == "i");
  BOOST_TEST(filter.images_min == 1);
  BOOST_TEST(filter.limit == 3);
  BOOST_TEST((query->format == LogFormat::kCsv));
}

BOOST_AUTO_TEST_CASE(without_a_query_the_newest_rows_are_meant) {
  const auto query = parse_log_query("");
  BOOST_TEST_REQUIRE(query.has_value());
  BOOST_TEST(query->filter.limit == 100);
  BOOST_TEST(query->filter.since_ms == 0);
  BOOST_TEST(query->filter.until_ms == INT64_MAX);
}

BOOST_AUTO_TEST_CASE(a_status_is_a_class_or_a_number) {
  BOOST_TEST(parse_log_query("status=ok")->filter.status_max == 399);
  BOOST_TEST(parse_log_query("status=404")->filter.status_min == 404);
  BOOST_TEST(parse_log_query("status=404")->filter.status_max == 404);
  BOOST_TEST(!parse_log_query("status=fine").has_value());
  BOOST_TEST(!parse_log_query("status=99").has_value());
}

BOOST_AUTO_TEST_CASE(what_is_not_there_cannot_be_asked_for) {
  for (const char* text : {"limit=0", "limit=20001", "format=xml", "images=-1", "colour=red"})
    BOOST_TEST(!parse_log_query(text).has_value());
}

BOOST_AUTO_TEST_CASE(rows_are_json_objects_with_null_for_the_unknown) {
  const json parsed = json::parse(log_rows_text(two_rows(), LogFormat::kJson));
  const json& rows = parsed["rows"];
  BOOST_TEST_REQUIRE(rows.size() == 2U);
  BOOST_TEST(rows[0]["id"] == "=cmd()\"x\"");
  BOOST_TEST(rows[0]["n_images"] == 0);
  BOOST_TEST(rows[0]["stream"] == true);
  BOOST_TEST(rows[0]["params"]["seed"] == 1);
  BOOST_TEST(rows[0]["total_us"].is_null());
  BOOST_TEST(rows[1]["status"].is_null());
  BOOST_TEST(rows[1]["params"].is_null());
}

BOOST_AUTO_TEST_CASE(json_lines_are_the_same_rows) {
  const std::string text = log_rows_text(two_rows(), LogFormat::kJsonLines);
  const size_t end = text.find('\n');
  BOOST_TEST(json::parse(text.substr(0, end)) ==
             json::parse(log_rows_text(two_rows(), LogFormat::kJson))["rows"][0]);
  BOOST_TEST(text.back() == '\n');
}

BOOST_AUTO_TEST_CASE(csv_is_quoted_and_no_formula) {
  const std::string text = log_rows_text(two_rows(), LogFormat::kCsv);
  BOOST_TEST(text.starts_with("id,ts_ms,endpoint,model,client,key_name,status,"));
  BOOST_TEST(text.find("\r\n\"'=cmd()\"\"x\"\"\",5,,\"a,b\",,,200,") != std::string::npos);
  BOOST_TEST(text.find("\"{\"\"seed\"\":1}\"\r\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_empty_log_is_an_empty_list) {
  BOOST_TEST(log_rows_text({}, LogFormat::kJson) == "{\"rows\":[]}");
  BOOST_TEST(log_rows_text({}, LogFormat::kJsonLines) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs
