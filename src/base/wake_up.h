// How other threads tell a waiting one that it has something to fetch.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace hs {

class WakeUp {
 public:
  // Any thread.
  void notify() {
    const std::lock_guard lock(mutex_);
    notified_ = true;
    condition_.notify_one();
  }
  // One thread. Returns at once after a notify() that no wait has seen yet.
  void wait() {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [this] { return notified_; });
    notified_ = false;
  }
  void wait_for(std::chrono::microseconds most) {
    std::unique_lock lock(mutex_);
    condition_.wait_for(lock, most, [this] { return notified_; });
    notified_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool notified_ = false;
};

}  // namespace hs
