#include "engine/step_time.h"

#include <algorithm>
#include <cmath>

namespace hs {
namespace {

constexpr double kKeep = 0.97;  // weight left of a step when the next one is seen

}  // namespace

void StepTime::saw(int32_t n_tokens, int64_t duration_us) {
  const double x = n_tokens;
  const auto y = static_cast<double>(std::max<int64_t>(duration_us, 1));
  weight_ = weight_ * kKeep + 1;
  x_ = x_ * kKeep + x;
  y_ = y_ * kKeep + y;
  xx_ = xx_ * kKeep + x * x;
  xy_ = xy_ * kKeep + x * y;
}

// With steps of one size only, or a slope that noise has turned round, all time is put down to the
// tokens: that predicts long steps too long rather than too short.
double StepTime::per_token_us() const {
  const double spread = xx_ - x_ * x_ / weight_;
  const double slope = spread > 1e-6 * xx_ ? (xy_ - x_ * y_ / weight_) / spread : 0;
  const double mean = y_ / x_;
  return slope > 0 && slope <= mean ? slope : mean;
}

double StepTime::base_us() const {
  return std::max(0.0, (y_ - per_token_us() * x_) / weight_);
}

double StepTime::predict_us(int64_t n_tokens, int64_t n_steps) const {
  return per_token_us() * static_cast<double>(n_tokens) + base_us() * static_cast<double>(n_steps);
}

int32_t StepTime::tokens_within(int64_t limit_us) const {
  const double n = (static_cast<double>(limit_us) - base_us()) / per_token_us();
  return static_cast<int32_t>(std::clamp(std::floor(n + 1e-6), 1.0, 1e9));
}

}  // namespace hs
