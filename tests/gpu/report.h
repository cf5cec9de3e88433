// What a check of GPUs measured, and which targets that meets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hs::gpu {

struct Measurement {
  enum class Target { kNone, kAtLeast, kAtMost };
  std::string part;  // "products"
  std::string name;  // "a layer of Vicuna-7B, 1 row"
  double value = 0;
  std::string unit;  // "GB/s"
  Target target = Target::kNone;
  double limit = 0;

  bool met() const;
};

class Report {
 public:
  void add(std::string_view part, std::string name, double value, std::string_view unit);
  // Share of something, as a fraction.
  void at_least(std::string_view part, std::string name, double value, double limit,
                std::string_view unit = "share");
  void at_most(std::string_view part, std::string name, double value, double limit,
               std::string_view unit = "times");
  // A part that could not be measured, and why.
  void miss(std::string_view part, std::string why);

  const std::vector<Measurement>& measurements() const { return measurements_; }
  int32_t n_missed() const;
  // For people: a line a measurement, with OK or MISSED beside those that have a target.
  std::string table() const;
  // One JSON object a line; the last sums up.
  std::string json_lines() const;

 private:
  struct Gap {
    std::string part;
    std::string why;
  };
  std::vector<Measurement> measurements_;
  std::vector<Gap> gaps_;
};

}  // namespace hs::gpu
