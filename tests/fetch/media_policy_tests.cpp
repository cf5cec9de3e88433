// From where pictures may be fetched: addresses by the registries of special ones, hosts and ports
// by the list, and both again after each redirect.
#include <arpa/inet.h>

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "fetch/fetch.h"
#include "fetch/media_policy.h"
#include "support/results.h"
#include "support/stub_server.h"

namespace hs {
namespace {

using test::http_answer;
using test::path_of;
using test::StubServer;

ResolvedAddress address(const std::string& text) {
  ResolvedAddress out;
  out.is_v6 = text.find(':') != text.npos;
  out.text = text;
  BOOST_REQUIRE(inet_pton(out.is_v6 ? AF_INET6 : AF_INET, text.c_str(), out.bytes.data()) == 1);
  return out;
}

MediaPolicy policy_of(const std::vector<std::string>& entries, bool allow_private = false) {
  auto policy = MediaPolicy::make(entries, allow_private);
  BOOST_REQUIRE_MESSAGE(policy, test::message_of(policy));
  return *std::move(policy);
}

bool allows(const MediaPolicy& policy, const std::string& text) {
  const auto url = parse_url(text);
  BOOST_REQUIRE_MESSAGE(url, text);
  const Status allowed = policy.allow_url(*url);
  if (!allowed) BOOST_TEST(allowed.error().code == "image_url_refused");
  return allowed.has_value();
}

FetchRequest request_of(std::string url, const MediaPolicy& policy) {
  FetchRequest request;
  request.url = std::move(url);
  request.use_proxy = false;
  request.policy.allow_url = [&policy](const Url& hop, int) { return policy.allow_url(hop); };
  request.policy.allow_address = [&policy](const Url& hop, const ResolvedAddress& resolved) {
    return policy.allow_address(hop, resolved);
  };
  return request;
}

std::string code_of(const Result<FetchResponse>& result) {
  return result ? std::string() : result.error().code;
}

BOOST_AUTO_TEST_SUITE(media_policy_tests)

BOOST_AUTO_TEST_CASE(addresses_are_judged_by_what_may_be_there) {
  const std::vector<std::pair<AddressScope, std::vector<std::string>>> kExpected = {
      {AddressScope::kPublic,
       {"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.255.255", "172.32.0.1",
        "192.167.255.255", "198.17.255.255", "198.20.0.1", "223.255.255.255", "2606:4700::1111",
        "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"}},
      {AddressScope::kPrivate,
       {"127.0.0.1", "127.255.255.255", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
        "100.64.0.1", "100.100.100.200", "::1", "fc00::1", "fd12:3456::1", "::ffff:127.0.0.1",
        "::ffff:10.1.2.3", "64:ff9b::a00:1", "2002:7f00:1::", "2002:c0a8:101::5"}},
      {AddressScope::kNever,
       {"0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "169.254.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "2001::1",
        "2001:20::1",
        "fd00:ec2::254",
        "3fff::1",
        "100::1",
        "::127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "64:ff9b:1::7f00:1",
        "4000::1"}}};
  for (const auto& [scope, texts] : kExpected)
    for (const std::string& text : texts) BOOST_TEST((scope_of(address(text)) == scope), text);
}

BOOST_AUTO_TEST_CASE(private_addresses_need_leave_and_metadata_services_never_have_it) {
  const Url url = *parse_url("http://pictures.test/");
  for (const bool allow_private : {false, true}) {
    const MediaPolicy policy = policy_of({"*"}, allow_private);
    BOOST_TEST(policy.allow_address(url, address("8.8.8.8")).has_value());
    BOOST_TEST(policy.allow_address(url, address("127.0.0.1")).has_value() == allow_private);
    BOOST_TEST(policy.allow_address(url, address("fd12::1")).has_value() == allow_private);
    for (const char* never : {"169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254",
                              "fe80::1", "0.0.0.0", "224.0.0.1"})
      BOOST_TEST(!policy.allow_address(url, address(never)), never);
  }
}

BOOST_AUTO_TEST_CASE(a_host_is_allowed_by_its_whole_name_and_the_usual_port) {
  const MediaPolicy policy =
      policy_of({"Example.org", "images.lab:8080", "*.cdn.test", "[2a00::1]"});
  for (const char* good :
       {"http://example.org/a.png", "https://EXAMPLE.org/", "https://example.org./x",
        "http://images.lab:8080/x", "https://images.lab:8080/x", "https://a.cdn.test/x",
        "http://a.b.cdn.test/", "http://[2a00::1]/x"})
    BOOST_TEST(allows(policy, good), good);
  for (const char* bad :
       {"http://evil.test/?example.org", "http://example.org.evil.test/", "http://notexample.org/",
        "http://sub.example.org/", "http://example.org:8080/", "http://example.org:22/",
        "https://example.org:80/", "http://images.lab/", "http://cdn.test/", "http://evilcdn.test/",
        "http://127.0.0.1/", "http://2130706433/", "http://[::1]/", "http://[2a00::2]/",
        "http://evil.test/#@example.org", "http://evil.test\\.example.org/"}) {
    if (!parse_url(bad)) continue;
    BOOST_TEST(!allows(policy, bad), bad);
  }
  // A user part that looks like a listed host is no URL at all.
  for (const char* bad : {"http://example.org@evil.test/", "http://example.org:80@127.0.0.1/",
                          "https://example.org%40evil.test/"})
    BOOST_TEST((!parse_url(bad) || !policy.allow_url(*parse_url(bad))), bad);
}

BOOST_AUTO_TEST_CASE(a_star_allows_every_host_at_the_usual_ports) {
  const MediaPolicy policy = policy_of({"*"});
  BOOST_TEST(allows(policy, "https://anything.test/"));
  BOOST_TEST(!allows(policy, "http://anything.test:6379/"));
  BOOST_TEST(!policy_of({}).allow_url(*parse_url("http://a.test/")));
}

BOOST_AUTO_TEST_CASE(entries_that_are_no_host_are_errors_that_name_them) {
  for (const std::string& bad :
       std::vector<std::string>{"", "http://a.test", "a.test/x", "a b", "*a.test", "*.", "a.*.test",
                                "user@a.test", "a.test:", "a.test:0", "a.test:99999", "a%2e.test",
                                "b\xc3\xbc"
                                "cher.test"}) {
    const auto policy = MediaPolicy::make(std::vector<std::string>{bad}, false);
    BOOST_TEST(!policy, bad);
    if (!policy) BOOST_TEST(policy.error().message.find("'" + bad + "'") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_listed_name_that_points_inside_is_not_connected_to) {
  StubServer server([](const std::string&) { return http_answer(200, "x"); });
  const std::string port = std::to_string(server.port());
  const MediaPolicy outside = policy_of({"pictures.test:" + port});
  const MediaPolicy inside = policy_of({"pictures.test:" + port}, true);
  for (const char* where : {"127.0.0.1", "[::ffff:127.0.0.1]", "169.254.169.254", "0.0.0.0"}) {
    FetchRequest request = request_of(server.url("/", "pictures.test"), outside);
    request.resolve = {"pictures.test:" + port + ":" + where};
    BOOST_TEST(code_of(fetch(request)) == "image_url_refused", where);
  }
  BOOST_TEST(server.heads().empty());
  FetchRequest request = request_of(server.url("/", "pictures.test"), inside);
  request.resolve = {"pictures.test:" + port + ":127.0.0.1"};
  const auto got = fetch(request);
  BOOST_REQUIRE_MESSAGE(got, test::message_of(got));
  BOOST_TEST(got->body == "x");
}

BOOST_AUTO_TEST_CASE(each_redirect_is_judged_like_the_first_url) {
  StubServer secret([](const std::string&) { return http_answer(200, "secret"); });
  std::string next;
  StubServer server([&](const std::string& head) {
    if (path_of(head) == "/end") return http_answer(200, "picture");
    return http_answer(302, "", {"Location: " + next});
  });
  const MediaPolicy policy = policy_of({"127.0.0.1:" + std::to_string(server.port())}, true);
  for (const std::string& bad : std::vector<std::string>{
           secret.url("/"), std::string("http://169.254.169.254/latest/meta-data/"),
           std::string("http://[::ffff:169.254.169.254]/"), std::string("//evil.test/x"),
           std::string("http://localhost:") + std::to_string(server.port()) + "/"}) {
    next = bad;
    BOOST_TEST(code_of(fetch(request_of(server.url("/a"), policy))) == "image_url_refused", bad);
  }
  BOOST_TEST(secret.heads().empty());
  for (const char* bad : {"file:///etc/passwd", "gopher://127.0.0.1/", "http://a@127.0.0.1/"}) {
    next = bad;
    BOOST_TEST(code_of(fetch(request_of(server.url("/a"), policy))) == "invalid_url", bad);
  }
  next = "/end";
  const auto got = fetch(request_of(server.url("/a"), policy));
  BOOST_REQUIRE_MESSAGE(got, test::message_of(got));
  BOOST_TEST(got->body == "picture");
}

BOOST_AUTO_TEST_CASE(web_urls_are_known_in_any_case) {
  for (const char* good : {"http://a", "HTTPS://a", "hTTp://"}) BOOST_TEST(is_web_url(good), good);
  for (const char* bad : {"", "http:/a", "data:image/png;base64,http://", "file://a", "ftp://a"})
    BOOST_TEST(!is_web_url(bad), bad);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs
