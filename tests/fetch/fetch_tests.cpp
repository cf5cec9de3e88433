// Outgoing requests against a scripted server: bodies and their caps, redirects and who gets the
// token, what a policy sees and refuses, broken transfers, cancelling.
#include <boost/test/unit_test.hpp>

#include "fetch/fetch.h"
#include "support/results.h"
#include "support/stub_server.h"

namespace hs {
namespace {

using test::http_answer;
using test::path_of;
using test::StubServer;

FetchRequest request_of(std::string url) {
  FetchRequest request;
  request.url = std::move(url);
  request.use_proxy = false;
  return request;
}

std::string code_of(const Result<FetchResponse>& result) {
  return result ? std::string() : result.error().code;
}

bool has_header(const std::string& head, std::string_view line) {
  return head.find(line) != head.npos;
}

BOOST_AUTO_TEST_SUITE(fetch_tests)

BOOST_AUTO_TEST_CASE(an_answer_comes_with_status_headers_and_body) {
  StubServer server([](const std::string&) { return http_answer(200, "hello", {"X-A: b"}); });
  FetchRequest request = request_of(server.url("/x?y=1"));
  request.headers.push_back({"Range", "bytes=3-"});
  const auto got = fetch(request);
  BOOST_REQUIRE_MESSAGE(got, test::message_of(got));
  BOOST_TEST(got->head.status == 200);
  BOOST_TEST(got->head.header("x-a") == "b");
  BOOST_TEST(got->body == "hello");
  BOOST_TEST(path_of(server.heads().at(0)) == "/x?y=1");
  BOOST_TEST(has_header(server.heads().at(0), "Range: bytes=3-\r\n"));
}

BOOST_AUTO_TEST_CASE(errors_of_the_server_are_answers_with_their_text) {
  StubServer server([](const std::string&) { return http_answer(403, "no", {}); });
  FetchRequest request = request_of(server.url("/"));
  bool told = false;
  request.on_bytes = [&](std::string_view) -> Status {
    told = true;
    return {};
  };
  const auto got = fetch(request);
  BOOST_REQUIRE(got);
  BOOST_TEST(got->head.status == 403);
  BOOST_TEST(got->body == "no");
  BOOST_TEST(!told);
}

BOOST_AUTO_TEST_CASE(the_token_goes_to_the_first_origin_alone) {
  StubServer other([](const std::string&) { return http_answer(200, "bytes"); });
  StubServer server([&](const std::string& head) {
    if (path_of(head) == "/a") return http_answer(302, "", {"Location: /b"});
    return http_answer(307, "ignored", {"Location: " + other.url("/c")});
  });
  FetchRequest request = request_of(server.url("/a"));
  request.bearer_token = "secret";
  const auto got = fetch(request);
  BOOST_REQUIRE_MESSAGE(got, test::message_of(got));
  BOOST_TEST(got->body == "bytes");
  BOOST_TEST(got->head.url.text == other.url("/c"));
  const auto heads = server.heads();
  BOOST_REQUIRE(heads.size() == 2U);
  BOOST_TEST(has_header(heads[0], "Authorization: Bearer secret\r\n"));
  BOOST_TEST(has_header(heads[1], "Authorization: Bearer secret\r\n"));
  BOOST_TEST(!has_header(other.heads().at(0), "secret"));
}

BOOST_AUTO_TEST_CASE(a_token_does_not_come_back_by_way_of_another_host) {
  std::string back;
  StubServer other([&](const std::string&) { return http_answer(302, "", {"Location: " + back}); });
  StubServer server([&](const std::string& head) {
    if (path_of(head) == "/a") return http_answer(302, "", {"Location: " + other.url("/")});
    return http_answer(200, "end");
  });
  back = server.url("/z");
  FetchRequest request = request_of(server.url("/a"));
  request.bearer_token = "secret";
  BOOST_REQUIRE(fetch(request));
  BOOST_TEST(!has_header(server.heads().at(1), "secret"));
}

BOOST_AUTO_TEST_CASE(redirects_end) {
  StubServer server([](const std::string&) { return http_answer(302, "", {"Location: /again"}); });
  FetchRequest request = request_of(server.url("/"));
  request.limits.redirects_max = 3;
  BOOST_TEST(code_of(fetch(request)) == "redirect_refused");
  BOOST_TEST(server.heads().size() == 4U);
}

BOOST_AUTO_TEST_CASE(a_redirect_to_another_scheme_is_refused) {
  StubServer server(
      [](const std::string&) { return http_answer(302, "", {"Location: file:///etc/passwd"}); });
  BOOST_TEST(code_of(fetch(request_of(server.url("/")))) == "invalid_url");
}

BOOST_AUTO_TEST_CASE(a_policy_sees_each_hop_and_each_address_before_it_is_used) {
  StubServer other([](const std::string&) { return http_answer(200, "x"); });
  StubServer server(
      [&](const std::string&) { return http_answer(302, "", {"Location: " + other.url("/c")}); });
  std::vector<std::string> seen;
  FetchRequest request = request_of(server.url("/a", "localhost"));
  request.policy.allow_url = [&](const Url& url, int hop) -> Status {
    seen.push_back(std::to_string(hop) + url.host);
    return {};
  };
  request.policy.allow_address = [&](const Url& url, const ResolvedAddress& address) -> Status {
    seen.push_back(url.host + "=" + address.text + ":" + std::to_string(address.port));
    if (address.is_v6) return fail(ErrorKind::kInvalidArgument, "no IPv6", "refused");
    return {};
  };
  const auto got = fetch(request);
  BOOST_REQUIRE_MESSAGE(got, test::message_of(got));
  std::erase_if(seen, [](const std::string& line) { return line.find("=::1") != line.npos; });
  const std::vector<std::string> expected = {
      "0localhost", "localhost=127.0.0.1:" + std::to_string(server.port()), "1127.0.0.1",
      "127.0.0.1=127.0.0.1:" + std::to_string(other.port())};
  BOOST_TEST(seen == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_refused_address_is_never_connected_to) {
  StubServer server([](const std::string&) { return http_answer(200, "x"); });
  FetchRequest request = request_of(server.url("/", "localhost"));
  request.policy.allow_address = [](const Url&, const ResolvedAddress&) -> Status {
    return fail(ErrorKind::kInvalidArgument, "private address", "address_refused");
  };
  BOOST_TEST(code_of(fetch(request)) == "address_refused");
  BOOST_TEST(server.heads().empty());
}

BOOST_AUTO_TEST_CASE(bodies_over_the_cap_are_cut_off) {
  StubServer announced([](const std::string&) { return http_answer(200, std::string(2000, 'x')); });
  StubServer silent([](const std::string&) {
    return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + std::string(2000, 'x');
  });
  for (const StubServer* server : {&announced, &silent}) {
    FetchRequest request = request_of(server->url("/"));
    request.limits.bytes_max = 1000;
    BOOST_TEST(code_of(fetch(request)) == "too_large");
  }
}

BOOST_AUTO_TEST_CASE(a_body_that_ends_early_is_cut) {
  StubServer server([](const std::string&) {
    return std::string("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
  });
  std::string kept;
  FetchRequest request = request_of(server.url("/"));
  request.on_bytes = [&](std::string_view bytes) -> Status {
    kept += bytes;
    return {};
  };
  const auto got = fetch(request);
  BOOST_TEST(code_of(got) == "cut");
  BOOST_TEST(kept == "only this");
}

BOOST_AUTO_TEST_CASE(a_callbacks_error_is_the_requests) {
  StubServer server([](const std::string&) { return http_answer(206, "abc"); });
  FetchRequest request = request_of(server.url("/"));
  request.on_head = [](const FetchHead& head) -> Status {
    return fail(ErrorKind::kDataLoss, std::to_string(head.status), "mine");
  };
  const auto got = fetch(request);
  BOOST_TEST(code_of(got) == "mine");
  BOOST_TEST(test::message_of(got) == "206");
}

BOOST_AUTO_TEST_CASE(cancelling_ends_a_request) {
  StubServer server([](const std::string&) { return http_answer(200, "abc"); });
  FetchRequest request = request_of(server.url("/"));
  request.cancelled = [] { return true; };
  const auto got = fetch(request);
  BOOST_TEST(code_of(got) == "cancelled");
  BOOST_TEST((!got && got.error().kind == ErrorKind::kCancelled));
}

BOOST_AUTO_TEST_CASE(nobody_there_is_told_as_unreachable) {
  std::string url;
  {
    StubServer server([](const std::string&) { return http_answer(200, ""); });
    url = server.url("/");
  }
  const auto got = fetch(request_of(url));
  BOOST_TEST(code_of(got) == "unreachable");
}

BOOST_AUTO_TEST_CASE(a_body_is_posted_and_not_redirected) {
  StubServer server([](const std::string& head) {
    return path_of(head) == "/ok" ? http_answer(200, "done")
                                  : http_answer(307, "", {"Location: /ok"});
  });
  FetchRequest request = request_of(server.url("/ok"));
  request.json_body = "{}";
  const auto got = fetch(request);
  BOOST_REQUIRE(got);
  BOOST_TEST(server.heads().at(0).starts_with("POST /ok "));
  request.url = server.url("/else");
  BOOST_TEST(code_of(fetch(request)) == "redirect_refused");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs
