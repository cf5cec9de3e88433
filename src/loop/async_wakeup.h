// How another thread tells the loop thread that there is something to fetch.
#pragma once

#include <functional>

#include "loop/loop.h"

namespace hs {

// send() from any thread makes the callback run on the loop thread soon; several sends may become
// one call, so the callback takes everything that waits in the caller's own queue. No send() may be
// running or come after destruction.
class AsyncWakeup {
 public:
  // keep_alive: whether this wake-up alone keeps Loop::run() from returning.
  AsyncWakeup(Loop& loop, std::function<void()> callback, bool keep_alive = true);
  ~AsyncWakeup();
  AsyncWakeup(const AsyncWakeup&) = delete;
  AsyncWakeup& operator=(const AsyncWakeup&) = delete;

  void send();

 private:
  struct Handle;
  Handle* handle_;  // freed by libuv's close callback
};

}  // namespace hs
