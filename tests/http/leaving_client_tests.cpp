// Clients that leave, end their side, or stop reading: their requests are cancelled, their memory
// is bounded, and nobody else notices. B26's question (a FIN may be a farewell or a half-close) is
// answered by probes: see http/connection.h.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "server_fixture.h"

namespace hs::test {
namespace {

struct LeavingFixture : ServerFixture {
  void start_with(int64_t probe_period_ms, int64_t stall_timeout_ms = 30'000) {
    HttpLimits limits;
    limits.probe_period_ms = probe_period_ms;
    limits.stall_timeout_ms = stall_timeout_ms;
    start(limits);
  }
  void until_gone(const std::string& path) {
    until([&] { return handler.gone[path] == 1; }, "the cancellation of " + path);
    until([&] { return server->n_connections() == 0; }, "the connection's end");
    BOOST_TEST(handler.gone[path] == 1);
  }
};

void close_with_farewell(TcpClient& client) {
  client.stream.reset();
}

void close_with_reset(TcpClient& client) {
  client.stream->reset_on_close();
  client.stream.reset();
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(leaving_client_tests, LeavingFixture)

BOOST_AUTO_TEST_CASE(closed_client_cancels_a_pending_whole_answer) {
  for (const auto leave : {close_with_farewell, close_with_reset}) {
    handler.gone.clear();
    handler.waiting.clear();
    start_with(500);
    const auto client = connect();
    client->send(get("/later"));
    const auto answer = writer("/later");
    leave(*client);
    until_gone("/later");
    answer->send({200, {}, "nobody hears this"});
    BOOST_TEST(answer->pending_bytes() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(closed_client_cancels_a_silent_event_stream) {
  for (const auto leave : {close_with_farewell, close_with_reset}) {
    handler.gone.clear();
    handler.waiting.clear();
    start_with(500);
    const auto client = connect();
    client->send(get("/later"));
    const auto answer = writer("/later");
    answer->start_stream(200, {{"content-type", std::string(kSseContentType)}});
    answer->write(sse_event("first"));
    until_received(*client, "data: first\n\n\r\n");
    leave(*client);
    until_gone("/later");  // although nothing more was written
  }
}

BOOST_AUTO_TEST_CASE(closed_client_cancels_any_stream_by_the_next_write) {
  start_with(500);
  const auto client = connect();
  client->send(get("/later"));
  const auto answer = writer("/later");
  answer->start_stream(200, {{"content-type", "application/octet-stream"}});
  close_with_farewell(*client);
  Timer producer(loop, [&] { answer->write("x"); });
  producer.start(1, 1);
  until_gone("/later");
}

BOOST_AUTO_TEST_CASE(http10_client_that_ends_its_side_counts_as_gone) {
  start_with(500);
  const auto client = connect();
  client->send("GET /later HTTP/1.0\r\n\r\n");
  writer("/later");
  client->stream->shutdown();
  until_gone("/later");
}

BOOST_AUTO_TEST_CASE(half_closed_client_gets_its_whole_answer) {
  start_with(20);
  const auto client = connect();
  client->send(get("/later"));
  client->stream->shutdown();
  const auto answer = writer("/later");
  // Probed several times, and still there.
  until(
      [&] {
        size_t n = 0;
        for (size_t at = 0; (at = client->received.find("100 Continue", at)) != std::string::npos;
             ++at)
          ++n;
        return n >= 3;
      },
      "three probes");
  BOOST_TEST(handler.gone["/later"] == 0);
  answer->send({200, {}, "whole"});
  until([&] { return client->eof; }, "the end");
  BOOST_TEST(client->received.ends_with("\r\n\r\nwhole"));
  BOOST_TEST(handler.gone["/later"] == 0);
}

BOOST_AUTO_TEST_CASE(half_closed_client_gets_its_whole_stream) {
  start_with(20);
  const auto client = connect();
  client->send(get("/later"));
  const auto answer = writer("/later");
  answer->start_stream(200, {{"content-type", std::string(kSseContentType)}});
  client->stream->shutdown();
  until([&] { return client->received.find(":\n\n") != std::string::npos; }, "a probe");
  answer->write(sse_event("first"));
  answer->write(sse_event("second"));
  answer->end();
  until([&] { return client->eof; }, "the end");
  BOOST_TEST(client->received.find("data: second\n\n") != std::string::npos);
  BOOST_TEST(client->received.ends_with("0\r\n\r\n"));
  BOOST_TEST(handler.gone["/later"] == 0);
}

BOOST_AUTO_TEST_CASE(half_closed_client_that_then_closes_is_noticed) {
  start_with(20);
  const auto client = connect();
  client->send(get("/later"));
  client->stream->shutdown();
  writer("/later");
  until([&] { return client->received.find("100 Continue") != std::string::npos; }, "a probe");
  close_with_farewell(*client);
  until_gone("/later");
}

BOOST_AUTO_TEST_CASE(requests_before_a_half_close_are_all_answered) {
  start_with(500);
  const auto client = connect();
  client->send(get("/later/1") + get("/later/2") + get("/show"));
  client->stream->shutdown();
  writer("/later/1")->send({200, {}, "one"});
  writer("/later/2")->send({200, {}, "two"});
  until([&] { return client->eof; }, "the end");
  BOOST_TEST(client->received.ends_with("host: t\n"));
}

BOOST_AUTO_TEST_CASE(client_that_leaves_in_its_body_costs_nothing) {
  start_with(500);
  const auto client = connect();
  client->send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nhalf");
  until([&] { return handler.events == "head POST /echo\n"; }, "the head");
  close_with_farewell(*client);
  until([&] { return server->n_connections() == 0; }, "the connection's end");
  BOOST_TEST(handler.events == "head POST /echo\n");
}

BOOST_AUTO_TEST_CASE(callback_set_after_the_client_left_is_called_at_once) {
  start_with(500);
  const auto client = connect();
  client->send(get("/later"));
  const auto answer = writer("/later");
  close_with_reset(*client);
  until_gone("/later");
  int called = 0;
  answer->on_client_gone([&] { ++called; });
  BOOST_TEST(called == 1);
}

BOOST_AUTO_TEST_CASE(no_callback_after_a_complete_answer) {
  start_with(500);
  const auto client = connect();
  client->send(get("/later"));
  writer("/later")->send({200, {}, "done"});
  until_received(*client, "done");
  close_with_reset(*client);
  until([&] { return server->n_connections() == 0; }, "the connection's end");
  BOOST_TEST(handler.gone["/later"] == 0);
}

BOOST_AUTO_TEST_CASE(writer_may_be_dropped_by_its_own_callback) {
  start_with(500);
  const auto client = connect();
  client->send(get("/later"));
  auto answer = writer("/later");
  handler.waiting.clear();
  bool called = false;
  answer->on_client_gone([&] {
    called = true;
    answer.reset();
  });
  close_with_reset(*client);
  until([&] { return called; }, "the callback");
  until([&] { return server->n_connections() == 0; }, "the connection's end");
}

BOOST_AUTO_TEST_CASE(fifty_stalled_readers_are_dropped_and_another_client_is_served) {
  constexpr size_t kReaders = 50, kCap = 16 * 1024;
  HttpLimits limits;
  limits.write_bytes_max = kCap;
  limits.write_bytes_hard_max = 4 * kCap;
  limits.stall_timeout_ms = 300;
  limits.socket_send_bytes = 8 * 1024;
  start(limits);
  std::vector<std::unique_ptr<TcpClient>> readers;
  std::vector<std::shared_ptr<ResponseWriter>> answers;
  for (size_t i = 0; i < kReaders; ++i) {
    readers.push_back(connect(false));
    readers.back()->stream->set_receive_buffer_bytes(1024);
    const std::string path = fmt::format("/later/{}", i);
    readers.back()->send(get(path));
    answers.push_back(writer(path));
    answers.back()->start_stream(200, {{"content-type", std::string(kSseContentType)}});
  }
  // A producer that minds the cap, as the API does: what a client leaves unread is all the memory
  // it can take.
  const std::string event = sse_event(std::string(200, 't'));
  size_t pending_max = 0, n_served = 0;
  Timer producer(loop, [&] {
    for (const auto& answer : answers) {
      for (int n = 0; n < 200 && answer->pending_bytes() <= kCap; ++n) answer->write(event);
      pending_max = std::max(pending_max, answer->pending_bytes());
    }
  });
  producer.start(1, 1);
  const auto other = connect();
  const auto n_gone = [&] {
    size_t n = 0;
    for (const auto& [path, calls] : handler.gone) n += static_cast<size_t>(calls);
    return n;
  };
  until(
      [&] {
        if (other->received.ends_with("host: t\n") || n_served == 0) {
          other->received.clear();
          other->send(get("/show"));
          ++n_served;
        }
        return n_gone() == kReaders;
      },
      "the end of every stalled reader");
  BOOST_TEST(pending_max <= kCap + 512);
  BOOST_TEST(n_served > 3U);
  BOOST_TEST(server->n_connections() == 1U);
  BOOST_TEST(!other->ended());
}

BOOST_AUTO_TEST_CASE(producer_that_ignores_the_cap_is_stopped_at_the_hard_one) {
  HttpLimits limits;
  limits.write_bytes_max = 1024;
  limits.write_bytes_hard_max = 64 * 1024;
  start(limits);
  const auto client = connect(false);
  client->send(get("/later"));
  const auto answer = writer("/later");
  answer->start_stream(200, {});
  size_t pending_max = 0;
  for (int n = 0; n < 20'000; ++n) {
    answer->write(std::string(1024, 'x'));
    pending_max = std::max(pending_max, answer->pending_bytes());
    BOOST_REQUIRE(handler.gone["/later"] == 0);  // never in the producer's own call
  }
  BOOST_TEST(pending_max < 70U * 1024);
  until_gone("/later");
}

BOOST_AUTO_TEST_CASE(reader_that_is_slow_but_reads_gets_everything) {
  HttpLimits limits;
  limits.write_bytes_max = 1024;
  limits.stall_timeout_ms = 100;
  start(limits);
  const auto client = connect(false);
  client->stream->set_receive_buffer_bytes(32 * 1024);
  client->reads_once = true;
  client->send(get("/later"));
  const std::string body(8 << 20, 'b');
  writer("/later")->send({200, {}, body});
  // One piece every few milliseconds, for longer than the time-out: only standing still would end
  // it.
  Timer reader(loop, [&] { client->stream->start_reading(); });
  reader.start(2, 2);
  until([&] { return client->ended() || client->received.ends_with(body); }, "the whole body");
  BOOST_TEST(!client->ended());
}

BOOST_AUTO_TEST_CASE(reader_that_takes_nothing_of_a_whole_answer_is_dropped) {
  start_with(500, 100);
  const auto client = connect(false);
  client->stream->set_receive_buffer_bytes(4096);
  client->send(get("/later"));
  writer("/later")->send({200, {}, std::string(32 << 20, 'b')});
  BOOST_TEST(server->n_connections() == 1U);
  until([&] { return server->n_connections() == 0; }, "the drop");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
