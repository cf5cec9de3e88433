// A lane: one device's worker thread. It executes work orders in the order they were posted and
// hands each back through the completion queue. It has no policy.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace hs {

// Work for a lane together with its result. From post() until it comes back only the lane touches
// it.
class WorkOrder {
 public:
  enum class Kind { kEncode, kTransfer, kKv, kStep };

  virtual ~WorkOrder() = default;
  virtual Kind kind() const = 0;
  // Lane thread. What an error means beyond this order (a lost device), the engine decides.
  virtual Status execute() = 0;

  Status status;  // what execute() returned
  int64_t started_us = 0;
  int64_t finished_us = 0;
};

// Finished orders of all lanes, on their way to the owner's thread.
class CompletionQueue {
 public:
  explicit CompletionQueue(std::function<void()> wake) : wake_(std::move(wake)) {}
  // Any thread. Calls wake() afterwards.
  void push(std::unique_ptr<WorkOrder> order);
  // Swaps the finished orders into `orders`, oldest first; `orders` is cleared before.
  void take(std::vector<std::unique_ptr<WorkOrder>>& orders);

 private:
  std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<WorkOrder>> finished_;
};

class Lane {
 public:
  // `completions` and `clock` (read on the lane's thread) must outlive the lane.
  // `begin` runs first on the lane's thread.
  Lane(std::string name, CompletionQueue& completions, const Clock& clock,
       std::function<void()> begin = {});
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  // Waits for the order in execution; drops those behind it.
  ~Lane();

  const std::string& name() const { return name_; }
  void post(std::unique_ptr<WorkOrder> order);
  // When the order in execution began, by `clock`; -1: there is none. Any thread.
  int64_t busy_since_us() const { return busy_since_us_.load(std::memory_order_relaxed); }

 private:
  void run();

  std::string name_;
  std::function<void()> begin_;
  CompletionQueue& completions_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::unique_ptr<WorkOrder>> orders_;
  bool stopping_ = false;
  std::atomic<int64_t> busy_since_us_ = -1;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace hs
