// What a played load took, as a table for people and one line of JSON for programs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/bench_play.h"
#include "engine/engine.h"

namespace hs {

// p in 0 .. 1, by the nearest rank; 0 without values.
double percentile(std::vector<double> values, double p);

struct BenchFacts {
  std::string model;
  std::string dtype;
  std::string partition;  // "" with one device
  std::string cut;        // "before", "after"; "" where pictures cross nowhere
  int32_t tensor_parallel = 1;
  uint64_t seed = 0;
  size_t at_once = 0;  // 0: by the rate
  double rate = 0;
};

class BenchReport {
 public:
  // `before`: the engine's counters when the load began.
  BenchReport(BenchFacts facts, const Played& played, const EngineStats& before,
              const EngineStats& after);

  std::string table() const;
  std::string json() const;  // no line end

 private:
  struct Times {
    const char* key;
    const char* title;
    std::vector<double> ms;
  };

  double rate_of(int64_t count) const { return static_cast<double>(count) / seconds_; }

  BenchFacts facts_;
  double seconds_;
  size_t n_requests_;
  std::vector<Times> times_;
  int64_t prompt_tokens_ = 0;
  int64_t image_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  int64_t output_tokens_ = 0;
  EngineStats counted_;  // after less before
};

}  // namespace hs
