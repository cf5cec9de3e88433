// Operating system signals as ordinary events of the loop.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "loop/loop.h"

namespace hs {

// The callback gets the signal's number (SIGTERM, SIGINT, SIGHUP, ...) on the loop thread, where it
// may do anything. Watching does not keep Loop::run() from returning. A signal that is not watched
// keeps its default effect.
class SignalWatcher {
 public:
  SignalWatcher(Loop& loop, std::initializer_list<int> signals, std::function<void(int)> callback);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  struct Handle;
  std::vector<Handle*> handles_;  // one a signal; each freed by libuv's close callback
};

}  // namespace hs
