// How long a step takes: a + b * tokens, fitted to the steps that were seen, recent ones weighted
// most. Weighted least squares with exponential forgetting.
#pragma once

#include <cstdint>

namespace hs {

class StepTime {
 public:
  void saw(int32_t n_tokens, int64_t duration_us);
  bool known() const { return weight_ > 0; }
  // Microseconds of so many tokens in so many steps. REQUIRES: known().
  double predict_us(int64_t n_tokens, int64_t n_steps) const;
  double base_us() const;       // a, not negative
  double per_token_us() const;  // b, positive once something was seen
  // Tokens of a step that is predicted to take no longer than limit_us; at least 1.
  int32_t tokens_within(int64_t limit_us) const;

 private:
  double weight_ = 0;  // sums over steps of w, w x, w y, w x^2, w x y; x = tokens, y = microseconds
  double x_ = 0;
  double y_ = 0;
  double xx_ = 0;
  double xy_ = 0;
};

}  // namespace hs
