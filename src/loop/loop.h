// The event loop that owns all mutable serving state, and how late it runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct uv_loop_s;

namespace hs {

// How late the loop ran a repeating timer, which is how long any event may have waited behind a
// callback. Counts are cumulative as Prometheus wants them.
struct LagHistogram {
  static constexpr std::array<double, 12> kUpperSeconds = {
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5};
  std::array<uint64_t, kUpperSeconds.size()> counts{};  // samples <= kUpperSeconds[i]
  uint64_t total = 0;
  double sum_seconds = 0;

  void add(double seconds);
};

// One libuv loop. Everything of this folder belongs to the thread that runs it, but for
// AsyncWakeup::send(). Every owner (timers, streams, ...) must be destroyed before its Loop.
class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs until stop(), or until nothing is left that could produce an event.
  void run();
  // Handles what is ready and returns; waits for one event if `wait`.
  void run_once(bool wait);
  // Ends run() after the current turn. Loop thread only.
  void stop();

  // Monotonic time now, microseconds.
  int64_t now_us() const;

  const LagHistogram& lag() const;

  // For this folder's own files.
  uv_loop_s* uv() const;
  std::span<char> read_buffer() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hs
