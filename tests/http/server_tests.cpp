// The server over real sockets, with clients on the same loop: keep-alive, streams, pipelining,
// time-outs, the answer that reaches a client in the middle of sending, and the orderly end. Times
// are short and injected; every wait is for an event.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "http/server.h"
#include "server_fixture.h"

namespace hs::test {
namespace {

size_t count(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

HttpServerOptions options(std::string host, uint16_t port) {
  HttpServerOptions made;
  made.host = std::move(host);
  made.port = port;
  return made;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(server_tests, ServerFixture)

BOOST_AUTO_TEST_CASE(one_connection_serves_many_requests) {
  start();
  const auto client = connect();
  for (int i = 0; i < 5; ++i) {
    client->received.clear();
    client->send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nab" +
                 std::to_string(i));
    until_received(*client, "ab" + std::to_string(i));
    BOOST_TEST(client->received.starts_with("HTTP/1.1 200 OK\r\nDate: "));
    BOOST_TEST(client->received.find("Content-Length: 3\r\n") != std::string::npos);
  }
  BOOST_TEST(server->n_connections() == 1U);
  BOOST_TEST(handler.last_duration_us >= 0);
}

BOOST_AUTO_TEST_CASE(stream_arrives_chunk_by_chunk) {
  start();
  const auto client = connect();
  client->send(get("/later"));
  const auto answer = writer("/later");
  answer->start_stream(200, {{"content-type", "text/plain"}});
  answer->write("first");
  until_received(*client, "5\r\nfirst\r\n");
  answer->write("");  // an empty chunk would end the stream
  answer->write("second");
  until_received(*client, "6\r\nsecond\r\n");
  answer->end();
  until_received(*client, "0\r\n\r\n");
  BOOST_TEST(client->received.find("Transfer-Encoding: chunked\r\n") != std::string::npos);
  BOOST_TEST(handler.gone["/later"] == 0);
}

BOOST_AUTO_TEST_CASE(a_refused_body_is_told_with_the_head_it_belongs_to) {
  HttpLimits limits;
  limits.body_bytes_max = 10;
  start(limits);
  const auto client = connect();
  client->send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 11\r\n\r\n");
  until([&] { return client->eof; }, "the refusal");
  BOOST_TEST(client->received.starts_with("HTTP/1.1 413 "));
  BOOST_TEST(handler.error_path == "/echo");
}

BOOST_AUTO_TEST_CASE(answer_that_comes_late_keeps_the_connection) {
  start();
  const auto client = connect();
  client->send(get("/later"));
  writer("/later")->send({200, {}, "late"});
  until_received(*client, "late");
  client->send(get("/show"));
  until_received(*client, "host: t\n");
}

BOOST_AUTO_TEST_CASE(requests_sent_ahead_wait_for_the_answer_before) {
  start();
  const auto client = connect();
  client->send(get("/later/1") + get("/later/2") + get("/show"));
  const auto first = writer("/later/1");
  for (int turn = 0; turn < 10; ++turn) loop.run_once(false);
  BOOST_TEST(!handler.waiting.contains("/later/2"));
  first->send({200, {}, "one"});
  const auto second = writer("/later/2");
  until_received(*client, "one");
  second->send({200, {}, "two"});
  until_received(*client, "host: t\n");
  BOOST_TEST(client->received.find("one") < client->received.find("two"));
  BOOST_TEST(count(client->received, "HTTP/1.1 200 OK\r\n") == 3U);
}

BOOST_AUTO_TEST_CASE(client_that_sends_far_ahead_is_not_read) {
  HttpLimits limits;
  limits.read_ahead_bytes_max = 1000;
  start(limits);
  const auto client = connect();
  client->stream->set_send_buffer_bytes(4096);
  client->send(get("/later"));
  const auto answer = writer("/later");
  constexpr size_t kRequests = 50'000;
  std::string many;
  for (size_t i = 0; i < kRequests; ++i) many += get("/empty");
  client->send(many);
  // The kernel's buffers fill up, and then nothing moves any more.
  size_t before = 0, still = 0;
  until(
      [&] {
        still = client->stream->queued_bytes() == before ? still + 1 : 0;
        before = client->stream->queued_bytes();
        return still > 10;
      },
      "a standstill");
  BOOST_TEST(before > 200'000U);
  answer->send({204, {}, ""});
  until([&] { return client->drained; }, "all requests to be sent");
  client->stream->shutdown();
  until([&] { return client->eof; }, "the end");
  BOOST_TEST(count(client->received, "HTTP/1.1 204 No Content\r\n") == kRequests + 1);
}

BOOST_AUTO_TEST_CASE(every_split_gives_the_same_answer) {
  start();
  const std::string request =
      "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n "
      "world\r\n0\r\n\r\n";
  for (size_t split = 1; split < request.size(); ++split) {
    const auto client = connect();
    client->send(request.substr(0, split));
    for (int turn = 0; turn < 3; ++turn) loop.run_once(false);
    client->send(request.substr(split));
    BOOST_TEST(until_received(*client, "\r\n\r\nhello world"), "split at " << split);
  }
}

BOOST_AUTO_TEST_CASE(million_chunks_of_one_byte_are_one_body) {
  start();
  const auto client = connect();
  std::string body;
  for (int i = 0; i < 1'000'000; ++i) body += "1\r\nx\r\n";
  client->send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n" + body +
               "0\r\n\r\n");
  until([&] { return client->received.size() > 1'000'000; }, "the echo");
  BOOST_TEST(client->received.find("Content-Length: 1000000\r\n") != std::string::npos);
}

// A client that sends its whole body before it looks for an answer must find the refusal, not a
// reset.
BOOST_AUTO_TEST_CASE(refusal_reaches_a_client_that_is_still_sending) {
  HttpLimits limits;
  limits.body_bytes_max = 1 << 20;
  start(limits);
  const std::string body((1 << 20) + 1, 'x');
  const std::string chunks = "100001\r\n" + body + "\r\n0\r\n\r\n";
  const std::vector<std::string> requests = {
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1048577\r\n\r\n" + body,
      "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks,
      "POST /refused HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n" +
          body.substr(0, 1'000'000),
  };
  for (const std::string& request : requests) {
    const auto client = connect(false);
    client->send(request);
    until([&] { return client->drained; }, "the whole body to be sent");
    client->stream->start_reading();
    until([&] { return client->ended(); }, "the end");
    BOOST_TEST(!client->broken, client->reason);
    const bool refused = client->received.starts_with("HTTP/1.1 413 ") ||
                         client->received.starts_with("HTTP/1.1 404 ");
    BOOST_TEST(refused, client->received);
  }
}

BOOST_AUTO_TEST_CASE(body_of_the_full_size_passes) {
  HttpLimits limits;
  limits.body_bytes_max = 3 << 20;
  start(limits);
  const auto client = connect();
  client->send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3145728\r\n\r\n" +
               std::string(3 << 20, 'y'));
  until([&] { return client->received.size() > (3U << 20); }, "the echo");
  BOOST_TEST(client->received.starts_with("HTTP/1.1 200 "));
}

BOOST_AUTO_TEST_CASE(slow_body_that_grows_enough_is_not_cut) {
  HttpLimits limits;
  limits.body_window_ms = 30;
  limits.body_window_bytes_min = 1;
  start(limits);
  const auto client = connect();
  client->send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 20\r\n\r\n");
  int sent = 0;
  Timer trickle(loop, [&] {
    if (sent++ < 20) client->send("z");
  });
  trickle.start(10, 10);
  BOOST_TEST(until_received(*client, std::string(20, 'z')));
}

BOOST_AUTO_TEST_CASE(connection_over_the_limit_is_told_so) {
  HttpLimits limits;
  limits.n_connections_max = 2;
  start(limits);
  const auto first = connect(), second = connect();
  until([&] { return server->n_connections() == 2; }, "two connections");
  const auto third = connect();
  until([&] { return third->ended(); }, "the refusal");
  BOOST_TEST(third->received.starts_with("HTTP/1.1 503 "));
  first->send(get("/show"));
  BOOST_TEST(until_received(*first, "host: t\n"));
  first->stream.reset();
  third->stream.reset();
  until([&] { return server->n_connections() == 1; }, "room");
  const auto fourth = connect();
  fourth->send(get("/show"));
  BOOST_TEST(until_received(*fourth, "host: t\n"));
}

BOOST_AUTO_TEST_CASE(stream_dropped_by_its_handler_is_cut_not_ended) {
  start();
  const auto client = connect();
  client->send(get("/later"));
  writer("/later")->start_stream(200, {});
  handler.waiting.clear();
  until([&] { return client->ended(); }, "the cut");
  BOOST_TEST(client->received.find("0\r\n\r\n") == std::string::npos);
  until([&] { return server->n_connections() == 0; }, "the connection's end");
}

BOOST_AUTO_TEST_CASE(header_values_cannot_end_their_line) {
  start();
  const auto client = connect();
  client->send(get("/later"));
  writer("/later")->send({200, {{"x-word", "a\r\nSet-Cookie: b"}, {"Content-Length", "9"}}, "ok"});
  until_received(*client, "ok");
  BOOST_TEST(client->received.find("x-word: a  Set-Cookie: b\r\n") != std::string::npos);
  BOOST_TEST(count(client->received, "ontent-") == 1U);
}

BOOST_AUTO_TEST_CASE(drain_without_connections_is_done_at_once) {
  start();
  bool done = false;
  server->drain(60'000, [&] { done = true; });
  BOOST_TEST(!done);  // never in the call itself
  until([&] { return done; }, "the drain");
}

BOOST_AUTO_TEST_CASE(drain_closes_idle_connections_and_lets_answers_end) {
  start();
  const auto idle = connect(), busy = connect(), streaming = connect();
  idle->send(get("/show"));
  until_received(*idle, "host: t\n");
  busy->send(get("/later/whole"));
  streaming->send(get("/later/stream"));
  const auto whole = writer("/later/whole"), stream = writer("/later/stream");
  stream->start_stream(200, {});
  stream->write("begun");
  until_received(*streaming, "begun\r\n");
  bool done = false;
  const uint16_t port = server->port();
  server->drain(60'000, [&] { done = true; });
  until([&] { return idle->eof; }, "the idle connection's end");
  TcpClient newcomer(loop, port);
  until([&] { return newcomer.broken; }, "the newcomer's refusal");
  stream->end();
  until([&] { return streaming->eof; }, "the stream's end");
  BOOST_TEST(streaming->received.ends_with("0\r\n\r\n"));
  BOOST_TEST(!done);
  whole->send({200, {}, "whole"});
  until([&] { return busy->eof; }, "the answer's end");
  BOOST_TEST(busy->received.ends_with("whole"));
  BOOST_TEST(busy->received.find("Connection: close\r\n") != std::string::npos);
  idle->stream.reset();
  busy->stream.reset();
  streaming->stream.reset();
  until([&] { return done; }, "the drain");
  BOOST_TEST(handler.gone.empty());
}

BOOST_AUTO_TEST_CASE(drain_waits_for_no_client_that_has_everything) {
  HttpLimits limits;
  limits.linger_timeout_ms = limits.linger_idle_timeout_ms = 600'000;  // never within this test
  start(limits);
  const auto idle = connect();  // neither client closes its side
  idle->send(get("/show"));
  until_received(*idle, "host: t\n");
  const auto answered = connect();
  answered->send(get("/later"));
  const auto answer = writer("/later");
  bool done = false;
  server->drain(600'000, [&] { done = true; });
  answer->send({200, {}, "the answer"});
  until([&] { return done && answered->eof && idle->eof; }, "the drain");
  BOOST_TEST(answered->received.ends_with("the answer"));
  BOOST_TEST(!answered->broken);
  BOOST_TEST(!idle->broken);
}

BOOST_AUTO_TEST_CASE(drain_cuts_off_what_does_not_end_in_time) {
  start();
  const auto client = connect();
  client->send(get("/later"));
  const auto answer = writer("/later");
  answer->start_stream(200, {});
  bool done = false;
  server->drain(20, [&] { done = true; });
  until([&] { return done && client->ended(); }, "the drain");
  BOOST_TEST(handler.gone["/later"] == 1);
  BOOST_TEST(client->broken);  // a reset, so that nobody takes it for complete
  answer->write("into the void");
  answer->end();
}

BOOST_AUTO_TEST_CASE(server_can_be_destroyed_in_its_drain_callback) {
  start();
  const auto client = connect();
  client->send(get("/later"));
  const auto answer = writer("/later");
  server->drain(10, [&] { server.reset(); });
  until([&] { return server == nullptr; }, "the end");
  answer->send({200, {}, "too late"});
}

BOOST_AUTO_TEST_CASE(destroying_the_server_tells_every_writer) {
  start();
  const auto one = connect(), two = connect();
  one->send(get("/later/1"));
  two->send(get("/later/2"));
  writer("/later/1");
  writer("/later/2");
  server.reset();
  BOOST_TEST(handler.gone["/later/1"] == 1);
  BOOST_TEST(handler.gone["/later/2"] == 1);
  until([&] { return one->ended() && two->ended(); }, "the clients' end");
}

BOOST_AUTO_TEST_CASE(taken_port_is_an_error_that_names_it) {
  start();
  const auto second = HttpServer::listen(loop, handler, options("127.0.0.1", server->port()));
  BOOST_REQUIRE(!second.has_value());
  BOOST_TEST(second.error().message.find(std::to_string(server->port())) != std::string::npos);
  const auto third = HttpServer::listen(loop, handler, options("no.such.host.invalid", 0));
  BOOST_REQUIRE(!third.has_value());
  BOOST_TEST((third.error().kind == ErrorKind::kInvalidArgument));
}

BOOST_AUTO_TEST_CASE(ipv6_and_names_can_be_listened_on) {
  for (const char* host : {"::1", "::", "localhost", "0.0.0.0"}) {
    const auto other = HttpServer::listen(loop, handler, options(host, 0));
    if (!other && std::string_view(host).find(':') != std::string_view::npos) {
      BOOST_TEST_MESSAGE("this machine has no IPv6: " << other.error().message);
      continue;
    }
    BOOST_REQUIRE_MESSAGE(other.has_value(), host);
    BOOST_TEST((*other)->port() != 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
