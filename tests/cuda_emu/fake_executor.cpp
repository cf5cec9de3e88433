#include "cuda_emu/fake_executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hs::cuda_emu {

Executor::Executor(Order order, uint64_t seed, std::function<void(Operation&)> perform)
    : order_(order), random_(seed), perform_(std::move(perform)) {
  constexpr uint64_t kEagerness[] = {0, 4, 10, 14};
  eagerness_ = kEagerness[draw(std::size(kEagerness))];
  favourites_ = random_();
}

uint64_t Executor::draw(uint64_t n) {
  return random_() % n;
}

void Executor::add(const OperationPtr& operation, const std::vector<OperationPtr>& after) {
  for (const OperationPtr& other : after) {
    if (other == nullptr || other->done) continue;
    operation->after.push_back(other);
    other->waiting.push_back(operation);
    ++operation->n_unmet;
  }
  pending_.push_back(operation);
  if (operation->n_unmet == 0) ready_.push_back(operation);
  if (order_ == Order::kEager) {
    while (!ready_.empty()) step(ready_.front());
  }
}

void Executor::run_some() {
  if (order_ != Order::kShuffled) return;
  while (!ready_.empty() && draw(16) < eagerness_) step(pick(ready_));
}

void Executor::run_until(const OperationPtr& target) {
  if (target == nullptr) return;
  mark_needed(target);
  while (!target->done) {
    if (order_ == Order::kShuffled && draw(4) == 0) {
      step(pick(ready_));
    } else {
      HS_CHECK(step_needed());
    }
  }
}

void Executor::poll(const OperationPtr& target) {
  if (target == nullptr || target->done) return;
  ++polls_;
  if (order_ == Order::kShuffled ? draw(2) == 0 : polls_ % 4 != 0) return;
  mark_needed(target);
  step_needed();
}

void Executor::run_device(int device) {
  for (;;) {
    const auto last = std::find_if(pending_.rbegin(), pending_.rend(),
                                   [device](const auto& o) { return o->device == device; });
    if (last == pending_.rend()) return;
    run_until(OperationPtr(*last));
  }
}

bool Executor::has_work(int device) const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [device](const auto& o) { return o->device == device; });
}

bool Executor::has_work_beside(int device, uint64_t stream) const {
  return std::any_of(pending_.begin(), pending_.end(), [device, stream](const auto& o) {
    return o->device == device && o->stream != stream;
  });
}

void Executor::mark_needed(const OperationPtr& target) {
  ++mark_;
  std::vector<Operation*> open = {target.get()};
  target->mark = mark_;
  while (!open.empty()) {
    Operation* o = open.back();
    open.pop_back();
    for (const OperationPtr& before : o->after) {
      if (before->done || before->mark == mark_) continue;
      before->mark = mark_;
      open.push_back(before.get());
    }
  }
}

bool Executor::step_needed() {
  std::vector<OperationPtr> needed;
  for (const OperationPtr& o : ready_) {
    if (o->mark == mark_) needed.push_back(o);
  }
  if (needed.empty()) return false;
  step(pick(needed));
  return true;
}

// Often the stream that this seed favours goes first, so that one can be far ahead; often what is
// not under way does, so that many are under way at once.
const OperationPtr& Executor::pick(const std::vector<OperationPtr>& from) {
  const auto choice = draw(4);
  if (choice < 2) return from[draw(from.size())];
  const auto rank = [this, choice](const OperationPtr& o) {
    const bool waits = choice == 3 && !o->started && o->start;
    const uint64_t favour = (o->stream + 1) * (favourites_ | 1) * 0x9E3779B97F4A7C15U;
    return std::pair(waits, favour);
  };
  return *std::max_element(from.begin(), from.end(),
                           [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

void Executor::step(OperationPtr operation) {
  if (!operation->started) {
    operation->started = true;
    if (operation->start && order_ != Order::kEager) {
      operation->start();
      return;
    }
  }
  perform_(*operation);
  now_ns_ += 1000;
  operation->end_ns = now_ns_;
  operation->done = true;
  operation->after.clear();
  operation->start = nullptr;
  operation->run = nullptr;
  std::erase(ready_, operation);
  std::erase(pending_, operation);
  for (const auto& weak : std::exchange(operation->waiting, {})) {
    if (const OperationPtr next = weak.lock(); next != nullptr && --next->n_unmet == 0) {
      ready_.push_back(next);
    }
  }
}

}  // namespace hs::cuda_emu
