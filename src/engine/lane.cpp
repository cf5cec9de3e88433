#include "engine/lane.h"

#include <pthread.h>

#include <exception>
#include <utility>

namespace hs {

void CompletionQueue::push(std::unique_ptr<WorkOrder> order) {
  {
    const std::lock_guard lock(mutex_);
    finished_.push_back(std::move(order));
  }
  wake_();
}

void CompletionQueue::take(std::vector<std::unique_ptr<WorkOrder>>& orders) {
  orders.clear();
  const std::lock_guard lock(mutex_);
  std::swap(orders, finished_);
}

Lane::Lane(std::string name, CompletionQueue& completions, const Clock& clock,
           std::function<void()> begin)
    : name_(std::move(name)),
      begin_(std::move(begin)),
      completions_(completions),
      clock_(clock),
      thread_([this] { run(); }) {}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void Lane::post(std::unique_ptr<WorkOrder> order) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back(std::move(order));
  }
  posted_.notify_one();
}

void Lane::run() {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  if (begin_) begin_();
  for (;;) {
    std::unique_ptr<WorkOrder> order;
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return stopping_ || !orders_.empty(); });
      if (stopping_) return;
      order = std::move(orders_.front());
      orders_.pop_front();
    }
    order->started_us = clock_.now_us();
    busy_since_us_.store(order->started_us, std::memory_order_relaxed);
    // Memory may run out below us; that ends the order, not the process.
    try {
      order->status = order->execute();
    } catch (const std::exception& e) {
      order->status = fail(ErrorKind::kInternal, e.what());
    }
    order->finished_us = clock_.now_us();
    busy_since_us_.store(-1, std::memory_order_relaxed);
    completions_.push(std::move(order));
  }
}

}  // namespace hs
