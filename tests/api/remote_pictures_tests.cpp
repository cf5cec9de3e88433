// Proves what becomes of pictures that requests name by URL: fetched from allowed hosts, off the
// loop, and refused in words that name the part and the kind of fault; bounded in bytes, time and
// number, and given up when nobody waits for them any more.
#include <poll.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "api/fixture.h"
#include "api/picture_fetcher.h"
#include "support/loopback_listener.h"
#include "support/stub_server.h"

namespace hs::test {
namespace {

using nlohmann::json;

std::string picture_bytes() {
  std::ifstream file(source_dir() + "/models/demo/examples/picture1.png", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Takes connections and says one byte of an answer every 20 ms for as long as somebody listens, or
// nothing at all. Counts those who listen.
class SlowServer {
 public:
  explicit SlowServer(bool drips) : drips_(drips) {
    thread_ = std::thread([this] { serve(); });
  }
  ~SlowServer() {
    shutdown(listener_.descriptor, SHUT_RDWR);
    thread_.join();
    close(listener_.descriptor);
  }
  SlowServer(const SlowServer&) = delete;
  SlowServer& operator=(const SlowServer&) = delete;

  std::string host() const { return "127.0.0.1:" + std::to_string(listener_.port); }
  std::string url() const { return "http://" + host() + "/slow.png"; }

  std::atomic<int> n_open = 0;
  std::atomic<int> n_open_most = 0;

 private:
  void serve() {
    std::vector<int> clients;
    while (true) {
      std::vector<pollfd> watched = {{listener_.descriptor, POLLIN, 0}};
      for (const int client : clients) watched.push_back({client, POLLRDHUP, 0});
      poll(watched.data(), watched.size(), 20);
      if ((watched[0].revents & POLLIN) != 0) {
        const int client = accept4(listener_.descriptor, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) break;
        clients.push_back(client);
        if (drips_) say(client, "HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n");
      } else if ((watched[0].revents & POLLHUP) != 0) {
        break;
      }
      for (size_t i = 1; i < watched.size(); ++i) {
        if ((watched[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
          close(watched[i].fd);
          std::erase(clients, watched[i].fd);
        } else if (drips_) {
          say(watched[i].fd, "x");
        }
      }
      n_open = static_cast<int>(clients.size());
      n_open_most = std::max(n_open_most.load(), n_open.load());
    }
    for (const int client : clients) close(client);
  }
  static void say(int client, std::string_view text) {
    static_cast<void>(send(client, text.data(), text.size(), MSG_NOSIGNAL));
  }

  const bool drips_;
  const LoopbackListener listener_ = listen_on_loopback();
  std::thread thread_;
};

ApiOptions with_media(ApiOptions options, std::shared_ptr<const MediaPolicy> policy) {
  options.limits.media = std::move(policy);
  options.limits.image_bytes_max = 100'000;
  return options;
}

// An API that fetches pictures from the hosts it is given.
struct RemoteFixture : ApiFixture {
  RemoteFixture() : ApiFixture(false) {}

  void allow(const std::vector<std::string>& hosts, bool allow_private = true,
             PictureFetcherOptions options = {}) {
    auto made = MediaPolicy::make(hosts, allow_private);
    BOOST_REQUIRE(made.has_value());
    options.policy = std::make_shared<const MediaPolicy>(*std::move(made));
    options.bytes_max = 100'000;
    fetching.reset();
    remote = std::make_unique<ApiHandler>(loop, workers, clock,
                                          with_media(this->options(), options.policy));
    fetching = std::make_unique<PictureFetcher>(loop, std::move(options));
    remote->set_pictures(fetching.get());
    auto model = std::make_shared<ServedModel>();
    model->names = {"tiny"};
    model->spec = &spec;
    model->prompts = &prompts;
    model->grammars = make_grammars(spec, prompts.tokenizer());
    model->max_model_len = 256;
    remote->set_model(model, engine, 0.5);
  }

  std::shared_ptr<RecordingWriter> begin(std::string path, const json& body) {
    auto writer = std::make_shared<RecordingWriter>();
    remote->handle(request("POST", std::move(path), body.dump()), writer);
    return writer;
  }
  // Waits until the answer is there, or the engine has the request.
  std::shared_ptr<RecordingWriter> ask(std::string path, const json& body) {
    const size_t before = engine.sinks.size();
    auto writer = begin(std::move(path), body);
    run_until(loop, [&] { return writer->done || engine.sinks.size() > before; }, "an answer");
    return writer;
  }
  std::shared_ptr<RecordingWriter> ask(const std::vector<std::string>& urls) {
    return ask("/v1/chat/completions", chat_of(urls));
  }
  static json chat_of(const std::vector<std::string>& urls) {
    json content = {{{"type", "text"}, {"text", "look"}}};
    for (const std::string& url : urls)
      content.push_back({{"type", "image_url"}, {"image_url", {{"url", url}}}});
    return {{"model", "tiny"}, {"messages", {{{"role", "user"}, {"content", content}}}}};
  }
  void check_refused(const RecordingWriter& writer, const std::string& code,
                     const std::string& param = "messages[0].content[1].image_url") {
    BOOST_TEST(writer.status == 400);
    BOOST_TEST(error_of(writer)["code"] == code, writer.body);
    BOOST_TEST(error_of(writer)["param"] == param, writer.body);
  }
  double metric(const std::string& line) {
    auto writer = std::make_shared<RecordingWriter>();
    remote->handle(request("GET", "/metrics"), writer);
    const size_t at = writer->body.find('\n' + line);
    BOOST_REQUIRE_MESSAGE(at != std::string::npos, line);
    return std::stod(writer->body.substr(writer->body.find(' ', at + line.size()) + 1));
  }

  std::unique_ptr<ApiHandler> remote;
  std::unique_ptr<PictureFetcher> fetching;  // ends first
};

std::string host_of(const StubServer& server) {
  return "127.0.0.1:" + std::to_string(server.port());
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(remote_pictures_tests, RemoteFixture)

BOOST_AUTO_TEST_CASE(pictures_are_fetched_for_every_kind_of_request) {
  const std::string picture = picture_bytes();
  StubServer server([&](const std::string&) {
    return http_answer(200, picture, {"Content-Type: text/html"});  // which nobody believes
  });
  allow({host_of(server)});
  const auto writer = ask({server.url("/a.png"), server.url("/a.png")});
  BOOST_REQUIRE_MESSAGE(engine.requests.size() == 1U, writer->body);
  BOOST_TEST(engine.requests[0].prompt.images.size() == 2U);
  BOOST_TEST(server.heads().size() == 1U);  // the same URL once
  finish();
  BOOST_TEST(rows.at(0).status == 200);
  BOOST_TEST(rows.at(0).n_images == 2);
  BOOST_TEST(rows.at(0).image_fetch_us >= 0);
  BOOST_TEST(rows.at(0).image_fetch_bytes == static_cast<int64_t>(picture.size()));
  BOOST_TEST(
      metric("heteroserve_image_fetches_total{model_name=\"tiny\",engine=\"0\",outcome=\"ok\"") ==
      1);
  BOOST_TEST(metric("heteroserve_image_fetch_bytes_total") == static_cast<double>(picture.size()));

  const json input = {
      {{"role", "user"},
       {"content", {{{"type", "input_image"}, {"image_url", server.url("/b.png")}}}}}};
  const json response = {{"model", "tiny"}, {"input", input}};
  const auto second = ask("/v1/responses", response);
  BOOST_REQUIRE_MESSAGE(engine.requests.size() == 2U, second->body);
  finish();
  for (const auto& [path, body] : std::vector<std::pair<std::string, json>>{
           {"/tokenize", chat_of({server.url("/c.png")})},
           {"/v1/chat/completions/input_tokens", chat_of({server.url("/c.png")})},
           {"/v1/responses/input_tokens", response}}) {
    const auto counted = ask(path, body);
    BOOST_TEST(counted->status == 200, path << ": " << counted->body);
  }
  BOOST_TEST(server.heads().size() == 5U);
}

BOOST_AUTO_TEST_CASE(without_hosts_the_answer_names_the_setting) {
  load();
  const auto writer = post("/v1/chat/completions", chat_of({"https://example.org/a.png"}).dump());
  check_refused(*writer, "invalid_image_url");
  BOOST_TEST(writer->body.find("--allowed-media-domains") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_the_policy_refuses_is_told_before_anything_is_fetched) {
  StubServer server([](const std::string&) { return http_answer(200, "x"); });
  allow({host_of(server), "localhost:" + std::to_string(server.port())}, false);
  check_refused(*ask({"http://other.test/a.png"}), "image_url_refused");
  check_refused(*ask({"http://user@127.0.0.1/a.png"}), "invalid_image_url");
  check_refused(*ask({"http://a b/"}), "invalid_image_url");
  check_refused(*ask({server.url("/a.png")}), "image_url_refused");               // loopback
  check_refused(*ask({server.url("/a.png", "localhost")}), "image_url_refused");  // by name
  BOOST_TEST(server.heads().empty());
  BOOST_TEST(rows.back().error_code == "image_url_refused");
}

BOOST_AUTO_TEST_CASE(a_redirect_to_a_metadata_service_is_refused) {
  StubServer server([](const std::string&) {
    return http_answer(302, "", {"Location: http://169.254.169.254/latest/meta-data/"});
  });
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{host_of(server)}, {host_of(server), "*"}}) {
    allow(hosts);
    check_refused(*ask({server.url("/a.png")}), "image_url_refused");
  }
}

BOOST_AUTO_TEST_CASE(faults_of_the_other_server_are_told_apart) {
  const std::string picture = picture_bytes();
  StubServer server([&](const std::string& head) -> std::string {
    const std::string path = path_of(head);
    if (path == "/404") return http_answer(404, "secret words of the other server");
    if (path == "/204") return "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    if (path == "/cut")
      return "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + picture.substr(0, 50);
    if (path == "/large") return http_answer(200, std::string(100'001, 'x'));
    if (path == "/silent")
      return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + std::string(200'000, 'x');
    if (path == "/lying") return "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + picture;
    if (path == "/html") return http_answer(200, "<html>", {"Content-Type: image/png"});
    if (path == "/empty") return http_answer(200, "");
    if (path == "/garbage") return "no HTTP at all";
    return http_answer(302, "", {"Location: /round"});
  });
  std::string nobody;
  {
    StubServer gone([](const std::string&) { return http_answer(200, ""); });
    nobody = host_of(gone);
  }
  allow({host_of(server), nobody});
  for (const auto& [path, code] :
       std::vector<std::pair<std::string, std::string>>{{"/404", "image_download_failed"},
                                                        {"/204", "image_download_failed"},
                                                        {"/cut", "image_download_failed"},
                                                        {"/garbage", "image_download_failed"},
                                                        {"/large", "image_too_large"},
                                                        {"/silent", "image_too_large"},
                                                        {"/lying", "invalid_image"},
                                                        {"/html", "unsupported_image"},
                                                        {"/empty", "invalid_image"},
                                                        {"/round", "image_url_refused"}}) {
    BOOST_TEST_CONTEXT(path) {
      const auto writer = ask({server.url(path)});
      check_refused(*writer, code);
      BOOST_TEST(writer->body.find("secret words") == std::string::npos);
    }
  }
  check_refused(*ask({"http://" + nobody + "/a.png"}), "image_download_failed");
  BOOST_TEST(
      metric(
          "heteroserve_image_fetches_total{model_name=\"tiny\",engine=\"0\",outcome=\"failed\"") ==
      5);
  BOOST_TEST(metric("heteroserve_image_fetches_total{model_name=\"tiny\",engine=\"0\",outcome="
                    "\"too_large\"") == 2);
  BOOST_TEST(
      metric(
          "heteroserve_image_fetches_total{model_name=\"tiny\",engine=\"0\",outcome=\"refused\"") ==
      1);
}

BOOST_AUTO_TEST_CASE(servers_that_are_silent_or_drip_run_into_the_time_cap) {
  for (const bool drips : {false, true}) {
    SlowServer slow(drips);
    PictureFetcherOptions options;
    options.timeout_ms = 300;
    allow({slow.host()}, true, std::move(options));
    const auto writer = ask({slow.url()});
    check_refused(*writer, "image_download_failed");
    BOOST_TEST(writer->body.find("0.3 s") != std::string::npos, writer->body);
  }
}

BOOST_AUTO_TEST_CASE(one_failed_picture_gives_up_the_others_and_names_itself) {
  SlowServer slow(true);
  StubServer server([](const std::string&) { return http_answer(500, ""); });
  allow({slow.host(), host_of(server)});
  const auto writer = ask({slow.url(), server.url("/x.png")});
  check_refused(*writer, "image_download_failed", "messages[0].content[2].image_url");
  BOOST_TEST(metric("heteroserve_image_fetches_total{model_name=\"tiny\",engine=\"0\",outcome="
                    "\"cancelled\"") == 1);
}

BOOST_AUTO_TEST_CASE(a_client_that_leaves_ends_the_fetching) {
  SlowServer slow(true);
  PictureFetcherOptions options;
  options.timeout_ms = 600'000;
  allow({slow.host()}, true, std::move(options));
  const auto writer = begin("/v1/chat/completions", chat_of({slow.url()}));
  const auto counted = begin("/tokenize", chat_of({slow.url()}));
  run_until(loop, [&] { return slow.n_open == 2; }, "both are being fetched", 60'000);
  writer->leave();
  counted->leave();
  run_until(loop, [&] { return !rows.empty() && slow.n_open == 0; }, "the end of it");
  BOOST_TEST(rows.at(0).status == 499);
  BOOST_TEST(rows.at(0).cancelled_by == "client");
  BOOST_TEST(remote->n_active() == 0U);
}

BOOST_AUTO_TEST_CASE(one_request_gets_only_some_of_the_threads_and_the_queue_ends) {
  SlowServer slow(false);
  PictureFetcherOptions options;
  options.timeout_ms = 600'000;
  options.n_threads = 3;
  options.of_a_request_max = 1;
  options.pictures_waiting_max = 4;
  allow({slow.host()}, true, std::move(options));
  std::vector<std::shared_ptr<RecordingWriter>> waiting;
  for (int i = 0; i < 2; ++i)
    waiting.push_back(begin(
        "/v1/chat/completions",
        chat_of({slow.url() + "?a" + std::to_string(i), slow.url() + "?b" + std::to_string(i)})));
  run_until(loop, [&] { return slow.n_open == 2; }, "one picture of each is being fetched", 60'000);
  const auto refused = ask({slow.url()});
  BOOST_TEST(refused->status == 503);
  BOOST_TEST(error_of(*refused)["code"] == "queue_full");
  BOOST_TEST(slow.n_open_most == 2);
  for (const auto& writer : waiting) writer->leave();
  run_until(loop, [&] { return remote->n_active() == 0; }, "the end of it");
}

BOOST_AUTO_TEST_CASE(ending_while_pictures_are_fetched_waits_for_no_server) {
  SlowServer slow(false);
  PictureFetcherOptions options;
  options.timeout_ms = 600'000;
  allow({slow.host()}, true, std::move(options));
  const auto writer = begin("/v1/chat/completions", chat_of({slow.url()}));
  run_until(loop, [&] { return slow.n_open == 1; }, "it is being fetched", 60'000);
  fetching.reset();
  BOOST_TEST(!writer->done);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
