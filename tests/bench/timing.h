// Repeated measurement: on a shared machine one number says little, so benches report the median
// and the range.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hs {

struct Samples {
  double median = 0;
  double low = 0;
  double high = 0;
};

inline Samples summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

// kThread: the time that the calling thread ran, which leaves out what neighbours take from it. It
// only means something where that thread does all the work.
enum class BenchClock { kWall, kThread };

inline double seconds_of(BenchClock clock) {
  timespec now{};
  clock_gettime(clock == BenchClock::kWall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds that one call of work() takes.
template <typename Work>
double time_once(const Work& work, BenchClock clock = BenchClock::kWall) {
  const double start = seconds_of(clock);
  work();
  return seconds_of(clock) - start;
}

}  // namespace hs
