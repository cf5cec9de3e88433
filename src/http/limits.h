// What a client may ask of the server: sizes, counts and times, each with a safe default.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hs {

struct HttpLimits {
  // A request's head and framing; the status in brackets is the answer to more.
  size_t target_bytes_max = 8 * 1024;           // [414]
  size_t head_bytes_max = 32 * 1024;            // request line and headers together [431]
  size_t n_headers_max = 100;                   // [431]
  size_t chunk_extension_bytes_max = 8 * 1024;  // all chunks of a body together [400]
  size_t body_bytes_max = size_t{64} << 20;     // [413]
  size_t all_bodies_bytes_max = size_t{1}
                                << 30;  // bodies being received, of all connections together [503]

  int64_t head_timeout_ms =
      10'000;  // from a head's first byte to its end [408], and for a new client's first byte
  int64_t idle_timeout_ms = 75'000;     // between requests of one connection
  int64_t body_window_ms = 10'000;      // in each window of this length a body ...
  size_t body_window_bytes_min = 4096;  // ... must grow by this much, or end [408]

  // A client that reads slowly. A stream with more than write_bytes_max waiting for
  // stall_timeout_ms is dropped, and so is one with more than write_bytes_hard_max at any time, and
  // any connection that takes nothing at all for stall_timeout_ms.
  size_t write_bytes_max = 256 * 1024;
  size_t write_bytes_hard_max = 4 * 1024 * 1024;
  int64_t stall_timeout_ms = 30'000;
  int socket_send_bytes =
      256 * 1024;  // what the kernel may hold besides, for each connection; 0: its own choice

  // Requests sent ahead of an answer wait here; a full buffer stops reading.
  size_t read_ahead_bytes_max = 64 * 1024;

  // After a last answer the server stops sending and discards what still comes, so that a client in
  // the middle of sending reads the answer instead of a reset; but not more than this, and not
  // longer.
  size_t linger_bytes_max = size_t{256} << 20;
  int64_t linger_timeout_ms = 30'000;
  int64_t linger_idle_timeout_ms = 2'000;

  // How often a client that ended its side is asked whether it still reads (connection.h).
  int64_t probe_period_ms = 500;

  size_t n_connections_max = 1024;  // one more is told 503 and closed
};

}  // namespace hs
