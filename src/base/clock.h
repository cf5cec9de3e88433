// Time is passed in: whoever needs it holds a Clock&, so that tests and the simulator set it by
// hand.
#pragma once

#include <atomic>
#include <cstdint>

namespace hs {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_us() const = 0;   // monotonic, microseconds from an arbitrary start
  virtual int64_t unix_ms() const = 0;  // wall clock, milliseconds since 1970
};

// The real clock; safe from any thread.
class SystemClock final : public Clock {
 public:
  int64_t now_us() const override;
  int64_t unix_ms() const override;
};

// Stands still until told otherwise. Lanes may read it while a test moves it.
class ManualClock final : public Clock {
 public:
  int64_t now_us() const override { return now_us_; }
  int64_t unix_ms() const override { return now_us_ / 1000; }
  void advance_us(int64_t us) { now_us_ += us; }

 private:
  std::atomic<int64_t> now_us_ = 0;
};

}  // namespace hs
