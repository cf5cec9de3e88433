// TCP: listeners, and streams of bytes with back-pressure in both directions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "loop/loop.h"

namespace hs {

// Told what happens on a stream, on the loop thread. Any call may destroy the stream. No default:
// an event that is not thought of is a bug.
class TcpEvents {
 public:
  virtual ~TcpEvents() = default;
  // The bytes are valid during the call only. May call stop_reading().
  virtual void on_read(std::string_view bytes) = 0;
  // The peer will send no more (it may still read); reading has stopped.
  virtual void on_eof() = 0;
  // The connection is broken in both directions (reset, unreachable, failed write); only
  // destruction is left to do.
  virtual void on_broken(std::string_view reason) = 0;
  // Everything that was queued has been taken by the operating system.
  virtual void on_drained() = 0;
};

// One connection. Loop thread only. Destroying it closes the socket: with what is queued still
// unsent dropped.
class TcpStream {
 public:
  ~TcpStream();
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;

  // Starts to connect to a numeric address; `events` hears of failure through on_broken(). Writes
  // may be queued at once; on_connected (may be empty) is called when the peer has answered.
  static Result<std::unique_ptr<TcpStream>> connect(Loop& loop, std::string_view address,
                                                    uint16_t port, TcpEvents* events,
                                                    std::function<void()> on_connected = {});

  // Must be called before the stream does anything; `events` must outlive the stream.
  void set_events(TcpEvents* events);

  void start_reading();
  void stop_reading();  // back-pressure: the peer's sender fills up and stops

  // Sends now what the socket takes and queues the rest. Failures arrive later through on_broken(),
  // never in the call.
  void write(std::string bytes);
  // Bytes given to write() that the operating system has not taken yet.
  size_t queued_bytes() const;
  // The same plus what the operating system holds until the peer has acknowledged it.
  size_t unacknowledged_bytes() const;

  // Tells the peer, after what is queued, that no more will come. Reading goes on. Nothing may be
  // written after it.
  void shutdown();
  // Makes destruction send a reset, so that the peer cannot take a cut answer for a complete one.
  void reset_on_close();

  // False once the connection has been reset or has fully ended: writing is pointless. A peer that
  // closed its socket is only noticed after something was written to it (its farewell alone may be
  // a half-close).
  bool is_alive() const;

  // "127.0.0.1:50312" or "[::1]:50312"; "" if the peer is already gone.
  std::string peer_address() const;

  // Kernel buffer sizes; for tests and for bounding kernel memory.
  void set_send_buffer_bytes(int bytes);
  void set_receive_buffer_bytes(int bytes);

 private:
  friend class TcpListener;
  struct Handle;
  explicit TcpStream(Handle* handle) : handle_(handle) {}
  // An accepted connection; null, and closed, when it is no good.
  static std::unique_ptr<TcpStream> take(Loop& loop, int descriptor);
  Handle* handle_;  // freed by libuv's close callback
};

// Accepts connections. Loop thread only. Destroying it stops listening at once. When the process is
// out of descriptors or memory, new connections wait in the backlog until it has some.
class TcpListener {
 public:
  using OnConnection = std::function<void(std::unique_ptr<TcpStream>)>;

  // Host: an address ("127.0.0.1", "::1", "0.0.0.0"; "::" takes IPv4 as well) or a name like
  // "localhost" (looked up here and now, so only at start). Port 0 picks a free one. SO_REUSEADDR
  // is set.
  static Result<std::unique_ptr<TcpListener>> listen(Loop& loop, const std::string& host,
                                                     uint16_t port, int backlog,
                                                     OnConnection on_connection);
  // On a bound stream socket that the process was given; it becomes the listener's.
  static Result<std::unique_ptr<TcpListener>> adopt(Loop& loop, int descriptor, int backlog,
                                                    OnConnection on_connection);
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  // "127.0.0.1:8080" as bound.
  std::string address() const;
  uint16_t port() const;

 private:
  struct Handle;
  explicit TcpListener(Handle* handle) : handle_(handle) {}
  Handle* handle_;  // freed by libuv's close callback
};

}  // namespace hs
