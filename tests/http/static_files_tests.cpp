// The embedded page: served compressed or plain, revalidated by its tag, and under a strict content
// security policy.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <string>

#include "http/static_files.h"

namespace hs {
namespace {

HttpRequest get(std::string path) {
  HttpRequest request;
  request.method = "GET";
  request.path = std::move(path);
  return request;
}

std::string header(const HttpResponse& response, std::string_view name) {
  for (const HttpHeader& each : response.headers)
    if (each.name == name) return each.value;
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(static_files_tests)

BOOST_AUTO_TEST_CASE(root_is_the_index_page_in_plain_bytes) {
  const auto page = serve_static(web_assets(), get("/"));
  BOOST_REQUIRE(page.has_value());
  BOOST_TEST(page->status == 200);
  BOOST_TEST(header(*page, "Content-Type") == "text/html; charset=utf-8");
  BOOST_TEST(page->body.starts_with("<!doctype html>"));
  BOOST_TEST(page->body.ends_with("</html>\n"));
  BOOST_TEST(header(*page, "Content-Encoding").empty());
}

BOOST_AUTO_TEST_CASE(client_that_accepts_gzip_gets_the_stored_bytes) {
  for (const std::string_view accepts : {"gzip", "br, GZIP;q=0.5", "*", "deflate ,gzip"}) {
    HttpRequest request = get("/favicon.svg");
    request.headers.push_back({"accept-encoding", std::string(accepts)});
    const auto file = serve_static(web_assets(), request);
    BOOST_REQUIRE(file.has_value());
    BOOST_TEST(header(*file, "Content-Encoding") == "gzip", accepts);
    BOOST_TEST(file->body.starts_with("\x1f\x8b"));
  }
  for (const std::string_view refuses : {"", "br", "gzip;q=0", "gzip; q=0.0", "xgzip"}) {
    HttpRequest request = get("/favicon.svg");
    request.headers.push_back({"accept-encoding", std::string(refuses)});
    BOOST_TEST(header(*serve_static(web_assets(), request), "Content-Encoding").empty(), refuses);
  }
}

BOOST_AUTO_TEST_CASE(known_tag_is_a_304_without_a_body) {
  const std::string tag = header(*serve_static(web_assets(), get("/favicon.svg")), "ETag");
  BOOST_TEST(tag.size() > 2U);
  for (const std::string& sent : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    HttpRequest request = get("/favicon.svg");
    request.headers.push_back({"if-none-match", sent});
    const auto answer = serve_static(web_assets(), request);
    BOOST_TEST(answer->status == 304, sent);
    BOOST_TEST(answer->body.empty());
  }
  HttpRequest request = get("/favicon.svg");
  request.headers.push_back({"if-none-match", "\"other\""});
  BOOST_TEST(serve_static(web_assets(), request)->status == 200);
}

BOOST_AUTO_TEST_CASE(only_hashed_names_are_kept_for_ever) {
  const std::array<StaticFile, 3> files = {{
      {"/app.3f2a9c10.js", "text/javascript", "", "\"a\""},
      {"/app.js", "text/javascript", "", "\"b\""},
      {"/facade01.js", "text/javascript", "", "\"c\""},
  }};
  const auto cached = [&](std::string path) {
    HttpRequest request = get(std::move(path));
    request.headers.push_back({"accept-encoding", "gzip"});
    return header(*serve_static(files, request), "Cache-Control");
  };
  BOOST_TEST(cached("/app.3f2a9c10.js") == "public, max-age=31536000, immutable");
  BOOST_TEST(cached("/app.js") == "no-cache");
  BOOST_TEST(cached("/facade01.js") == "no-cache");
}

BOOST_AUTO_TEST_CASE(scripts_and_styles_of_the_page_are_kept_for_ever) {
  int n_assets = 0;
  for (const StaticFile& file : web_assets()) {
    if (!file.path.starts_with("/assets/")) continue;
    ++n_assets;
    const auto answer = serve_static(web_assets(), get(std::string(file.path)));
    BOOST_TEST(header(*answer, "Cache-Control").ends_with("immutable"), file.path);
  }
  BOOST_TEST(n_assets >= 2);
}

BOOST_AUTO_TEST_CASE(other_paths_and_methods_are_not_its_business) {
  for (const char* path :
       {"/nothing", "/../favicon.svg", "//favicon.svg", "/favicon.svg/", "/web/favicon.svg", ""})
    BOOST_TEST(!serve_static(web_assets(), get(path)).has_value(), path);
  HttpRequest request = get("/");
  request.method = "POST";
  BOOST_TEST(!serve_static(web_assets(), request).has_value());
}

BOOST_AUTO_TEST_CASE(page_lives_under_a_strict_policy) {
  const auto page = serve_static(web_assets(), get("/"));
  const std::string policy = header(*page, "Content-Security-Policy");
  BOOST_TEST(policy.starts_with("default-src 'self';"));
  BOOST_TEST(policy.find("unsafe") == policy.npos);
  BOOST_TEST(header(*page, "X-Content-Type-Options") == "nosniff");
  // What the policy would block must not be in the page: inline scripts, inline styles, handlers,
  // outside addresses.
  for (const char* blocked : {"<script>", "<style", " style=", " onclick=", "http://", "https://"})
    BOOST_TEST(page->body.find(blocked) == page->body.npos, blocked);
}

BOOST_AUTO_TEST_CASE(everything_the_page_names_is_there) {
  const std::string page = serve_static(web_assets(), get("/"))->body;
  for (const std::string_view attribute : {"src=\"/", "href=\"/"}) {
    for (size_t at = 0; (at = page.find(attribute, at)) != page.npos; ++at) {
      const size_t begin = at + attribute.size() - 1;
      const std::string path = page.substr(begin, page.find('"', begin) - begin);
      if (path != "/metrics") BOOST_TEST(serve_static(web_assets(), get(path)).has_value(), path);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
