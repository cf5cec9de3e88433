// A callback after a while, once or again and again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "loop/loop.h"

namespace hs {

// Loop thread only. The callback may start, stop or destroy its own timer.
class Timer {
 public:
  Timer(Loop& loop, std::function<void()> callback);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Replaces what was started before. repeat_ms 0: once.
  void start(int64_t delay_ms, int64_t repeat_ms = 0);
  void stop();
  bool active() const;

 private:
  struct Handle;
  Handle* handle_;  // freed by libuv's close callback
};

}  // namespace hs
