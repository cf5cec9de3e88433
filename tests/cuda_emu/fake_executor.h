// Runs operations in any order that their dependencies allow, drawn from a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda_emu/fake_runtime.h"

namespace hs::cuda_emu {

// One thing that a device does: a kernel, a copy, an event.
struct Operation {
  std::string what;             // for reports
  int device = 0;               // which an error in it loses
  uint64_t stream = 0;          // a stream's number; decides who is favoured
  std::function<void()> start;  // or null: what is to be seen while the operation is under way
  std::function<void()> run;    // or null
  // The executor's.
  std::vector<std::shared_ptr<Operation>> after;  // what must be done first, until it is
  std::vector<std::weak_ptr<Operation>> waiting;  // who waits for this one
  size_t n_unmet = 0;
  bool started = false;
  bool done = false;
  uint64_t mark = 0;
  uint64_t end_ns = 0;  // on the clock of the machine, once it is done
};
using OperationPtr = std::shared_ptr<Operation>;

class Executor {
 public:
  // `perform` carries an operation out; it does not throw.
  Executor(Order order, uint64_t seed, std::function<void(Operation&)> perform);

  void add(const OperationPtr& operation, const std::vector<OperationPtr>& after);
  // As much as the order wants while the host is in any call.
  void run_some();
  void run_until(const OperationPtr& target);
  // For one that is asked whether it is done: it is, after finitely many calls.
  void poll(const OperationPtr& target);
  // All of the device's operations and what they need.
  void run_device(int device);
  bool has_work(int device) const;
  // In another stream.
  bool has_work_beside(int device, uint64_t stream) const;
  // Between 0 and n - 1.
  uint64_t draw(uint64_t n);
  Order order() const { return order_; }
  uint64_t now_ns() const { return now_ns_; }

 private:
  void mark_needed(const OperationPtr& target);
  bool step_needed();
  void step(OperationPtr operation);
  const OperationPtr& pick(const std::vector<OperationPtr>& from);

  Order order_;
  std::mt19937_64 random_;
  uint64_t eagerness_;   // of 16: how likely one more operation runs in a call
  uint64_t favourites_;  // decides which streams come first
  std::function<void(Operation&)> perform_;
  std::vector<OperationPtr> pending_;  // all that are not done, in order of arrival
  std::vector<OperationPtr> ready_;
  uint64_t mark_ = 0;
  uint64_t polls_ = 0;
  uint64_t now_ns_ = 0;
};

}  // namespace hs::cuda_emu
