#include "plan/tier_math.h"

#include <algorithm>

namespace hs {

double homogeneous_rate(double n, double v, double l) {
  return n / (v + l);
}

double two_tier_rate(double n_consumer, double n_datacenter, const TierTimes& times) {
  return std::min(n_consumer / times.v_consumer, n_datacenter / times.l_datacenter);
}

// Whoever is short of vision steals nothing. Otherwise both pools are busy all the time:
// X v_C + (X - n_D / l_D) l_C = n_C.
double stealing_rate(double n_consumer, double n_datacenter, const TierTimes& times) {
  const double encoded = n_consumer / times.v_consumer;
  const double answered = n_datacenter / times.l_datacenter;
  if (encoded <= answered) return encoded;
  return (answered + n_consumer / times.l_consumer) / (1 + times.v_consumer / times.l_consumer);
}

double stage_rate(double n_consumer, double n_datacenter, double v_consumer,
                  double prefill_consumer, double decode_datacenter) {
  return std::min(n_consumer / (v_consumer + prefill_consumer), n_datacenter / decode_datacenter);
}

double no_idle_ratio(const TierTimes& times) {
  return times.v_consumer / times.l_datacenter;
}

double saving_at_no_idle(double vision_share, double price_ratio, double vision_speed) {
  return vision_share * (1 - price_ratio / vision_speed);
}

double vision_share_for(double saving, double price_ratio, double vision_speed) {
  return saving / (1 - price_ratio / vision_speed);
}

double saving(double cost, double rate, double other_cost, double other_rate) {
  return 1 - (cost / rate) / (other_cost / other_rate);
}

}  // namespace hs
