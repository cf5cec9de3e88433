// Streams carry bytes in order with back-pressure both ways, tell how they ended, and may be
// destroyed at any time.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "loop/tcp.h"
#include "support/loop_wait.h"
#include "support/tcp_client.h"

namespace hs::test {
namespace {

// One end accepted by a listener, kept with all it heard.
struct Accepted final : TcpEvents {
  void on_read(std::string_view bytes) override {
    received += bytes;
    if (destroy_on_read) stream.reset();
  }
  void on_eof() override { eof = true; }
  void on_broken(std::string_view) override { broken = true; }
  void on_drained() override { drained = true; }

  std::unique_ptr<TcpStream> stream;
  std::string received;
  bool eof = false, broken = false, drained = false, destroy_on_read = false;
};

struct PairFixture {
  PairFixture() {
    auto made =
        TcpListener::listen(loop, "127.0.0.1", 0, 16, [this](std::unique_ptr<TcpStream> accepted) {
          far.stream = std::move(accepted);
          far.stream->set_events(&far);
          far.stream->start_reading();
        });
    BOOST_REQUIRE(made.has_value());
    listener = std::move(*made);
    near = std::make_unique<TcpClient>(loop, listener->port());
    until([&] { return near->connected && far.stream; }, "the connection");
  }
  void until(const std::function<bool()>& condition, std::string_view what) {
    run_until(loop, condition, what);
  }

  Loop loop;
  Accepted far;
  std::unique_ptr<TcpListener> listener;
  std::unique_ptr<TcpClient> near;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tcp_tests, PairFixture)

BOOST_AUTO_TEST_CASE(a_bound_socket_can_be_taken_over) {
  const int bound = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  BOOST_REQUIRE(bind(bound, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  size_t n_accepted = 0;
  auto adopted =
      TcpListener::adopt(loop, bound, 16, [&](std::unique_ptr<TcpStream>) { ++n_accepted; });
  BOOST_REQUIRE(adopted.has_value());
  BOOST_TEST((*adopted)->port() != 0);
  TcpClient client(loop, (*adopted)->port());
  until([&] { return n_accepted == 1; }, "the connection");

  BOOST_TEST(!TcpListener::adopt(loop, 1 << 20, 16, {}).has_value());
}

// No turning in a circle meanwhile: a listener without descriptors would be ready all the time.
BOOST_AUTO_TEST_CASE(without_descriptors_connections_wait_until_there_are_some) {
  rlimit before{};
  BOOST_REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  TcpClient client(loop, listener->port());  // in the backlog from here on, until the loop turns
  std::vector<int> taken;
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(before.rlim_cur, 512);
  BOOST_REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  for (int made = open("/dev/null", O_RDONLY); made >= 0; made = open("/dev/null", O_RDONLY))
    taken.push_back(made);
  TcpStream* const first = far.stream.get();
  bool late = false;
  Timer wait(loop, [&] { late = true; });
  wait.start(300);
  int n_turns = 0;
  for (; !late; ++n_turns) loop.run_once(true);
  BOOST_TEST(far.stream.get() == first);
  BOOST_TEST(n_turns < 2000);
  for (const int each : taken) close(each);
  BOOST_REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  until([&] { return far.stream.get() != first; }, "the connection");
}

BOOST_AUTO_TEST_CASE(bytes_arrive_in_order_both_ways) {
  std::string sent;
  for (int i = 0; i < 20'000; ++i) {
    const std::string part = std::to_string(i) + ",";
    near->send(part);
    sent += part;
  }
  far.stream->write("hello");
  until([&] { return far.received.size() == sent.size() && near->received == "hello"; },
        "all bytes");
  BOOST_TEST(far.received == sent);
}

BOOST_AUTO_TEST_CASE(addresses_are_text) {
  BOOST_TEST(listener->address() == "127.0.0.1:" + std::to_string(listener->port()));
  BOOST_TEST(near->stream->peer_address() == listener->address());
  BOOST_TEST(far.stream->peer_address().starts_with("127.0.0.1:"));
}

BOOST_AUTO_TEST_CASE(reader_that_stops_makes_the_writer_queue) {
  far.stream->stop_reading();
  const std::string block(1 << 20, 'b');
  size_t given = 0;
  for (int i = 0; i < 32; ++i) {
    near->send(block);
    given += block.size();
    loop.run_once(false);
  }
  BOOST_TEST(near->stream->queued_bytes() > (8U << 20));
  BOOST_TEST(near->stream->unacknowledged_bytes() >= near->stream->queued_bytes());
  BOOST_TEST(!near->drained);
  far.stream->start_reading();
  until([&] { return far.received.size() == given; }, "all bytes");
  until([&] { return near->drained; }, "the drained event");
  BOOST_TEST(near->stream->queued_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(shutdown_comes_after_what_is_queued_and_only_one_way) {
  const std::string block(8 << 20, 'q');
  near->send(block);
  near->stream->shutdown();
  until([&] { return far.eof; }, "the end of the near side");
  BOOST_TEST(far.received.size() == block.size());
  far.stream->write("still open");
  until([&] { return near->received == "still open"; }, "the other way");
  BOOST_TEST(!near->ended());
}

BOOST_AUTO_TEST_CASE(close_is_an_end_and_reset_is_a_break) {
  near->stream.reset();
  until([&] { return far.eof; }, "the end");
  BOOST_TEST(!far.broken);
  auto other = std::make_unique<TcpClient>(loop, listener->port());
  until([&] { return other->connected; }, "the connection");
  other->send("x");
  until([&] { return far.received == "x"; }, "a byte");
  other->stream->reset_on_close();
  other->stream.reset();
  until([&] { return far.broken; }, "the reset");
}

BOOST_AUTO_TEST_CASE(write_to_a_closed_peer_breaks_and_is_alive_tells_it) {
  near->stream.reset();
  until([&] { return far.eof; }, "the farewell");
  BOOST_TEST(far.stream->is_alive());  // it could be a half-close
  far.stream->write("anyone?");
  until([&] { return !far.stream->is_alive(); }, "the reset");
  BOOST_TEST(!far.broken);  // nothing tells a stream that neither reads nor writes
  far.stream->write("hello?");
  BOOST_TEST(!far.broken);  // failures are never told in the call
  until([&] { return far.broken; }, "the failed write");
}

BOOST_AUTO_TEST_CASE(refused_connection_is_broken) {
  const uint16_t port = listener->port();
  listener.reset();
  loop.run_once(false);
  TcpClient lost(loop, port);
  until([&] { return lost.broken; }, "the refusal");
  BOOST_TEST(!lost.connected);
}

BOOST_AUTO_TEST_CASE(stream_may_be_destroyed_in_its_own_event) {
  far.destroy_on_read = true;
  near->send("die");
  until([&] { return near->ended(); }, "the end");
  BOOST_TEST(!far.stream);
}

BOOST_AUTO_TEST_CASE(queued_bytes_die_with_their_stream) {
  far.stream->stop_reading();
  near->send(std::string(32 << 20, 'z'));
  near->stream.reset();  // frees the queue; sanitizer builds would tell if not
  far.stream->start_reading();
  until([&] { return far.eof || far.broken; }, "the end");
  BOOST_TEST(far.received.size() < (32U << 20));
}

BOOST_AUTO_TEST_CASE(bad_addresses_are_errors) {
  BOOST_TEST(!TcpStream::connect(loop, "not an address", 80, &far).has_value());
  BOOST_TEST(!TcpListener::listen(loop, "192.0.2.1", 0, 16, {}).has_value());  // not this machine's
  const auto taken = TcpListener::listen(loop, "127.0.0.1", listener->port(), 16, {});
  BOOST_REQUIRE(!taken.has_value());
  BOOST_TEST((taken.error().kind == ErrorKind::kIo));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
