// A client on the test's own loop that keeps all it hears.
#pragma once

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "loop/tcp.h"

namespace hs::test {

class TcpClient final : public TcpEvents {
 public:
  TcpClient(Loop& loop, uint16_t port, bool reads = true) {
    Result<std::unique_ptr<TcpStream>> made =
        TcpStream::connect(loop, "127.0.0.1", port, this, [this, reads] {
          connected = true;
          if (reads) stream->start_reading();
        });
    BOOST_REQUIRE(made.has_value());
    stream = std::move(*made);
  }

  void send(std::string_view bytes) {
    if (stream && !broken) stream->write(std::string(bytes));
  }
  bool ended() const { return eof || broken; }

  void on_read(std::string_view bytes) override {
    received += bytes;
    if (reads_once) stream->stop_reading();
  }
  void on_eof() override { eof = true; }
  void on_broken(std::string_view why) override {
    broken = true;
    reason = why;
  }
  void on_drained() override { drained = true; }

  std::unique_ptr<TcpStream> stream;
  std::string received;
  std::string reason;
  bool connected = false, eof = false, broken = false, drained = false;
  bool reads_once = false;  // stops after each piece, until told to read again
};

}  // namespace hs::test
