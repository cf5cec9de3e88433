// When requests come and which: seeded, the same on every machine.
#pragma once

#include <cstdint>

#include "plan/simulator.h"

namespace hs {

// SplitMix64 (Steele, Lea, Flood 2014).
class SeededRandom {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
  }
  // In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  size_t below(size_t n) { return static_cast<size_t>(uniform() * static_cast<double>(n)); }

 private:
  uint64_t state_;
};

// The open arrivals of a run. kSaturated has none: the simulator asks for the next request only.
class Arrivals {
 public:
  Arrivals(const Workload& workload, const SimOptions& options);
  // Whether another one comes by itself, and when.
  bool open() const { return open_ && n_left_ > 0; }
  double next_us() const { return next_us_; }
  int64_t n_left() const { return n_left_; }
  // The next request. REQUIRES: n_left() > 0.
  const RequestShape& take();

 private:
  void advance();

  const Workload& workload_;
  ArrivalProcess process_;
  double gap_us_;
  double speed_;
  bool open_;
  bool in_order_;
  int64_t n_left_;
  int64_t n_taken_ = 0;
  double next_us_ = 0;
  SeededRandom random_;
};

}  // namespace hs
