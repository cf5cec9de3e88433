// Repeated measurement: on a shared machine one number says little, so benches report the median
// and the range.
#pragma once

#include <algorithm>
#include <chrono>
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

// Seconds that one call of work() takes.
template <typename Work>
double time_once(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace hs
