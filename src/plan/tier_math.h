// Throughput and saving of pools in closed form. v and l are the times that a request's pictures
// and its language work keep a device busy; _C on a consumer card, _D on a datacenter one. What
// waits is ignored: every device that has work is busy.
#pragma once

namespace hs {

struct TierTimes {
  double v_consumer = 0;  // any unit of time, the same for all; infinity: it cannot
  double v_datacenter = 0;
  double l_consumer = 0;
  double l_datacenter = 0;

  // Share of vision in a request's time on a datacenter card.
  double vision_share() const { return v_datacenter / (v_datacenter + l_datacenter); }
  // Speed of a consumer card at vision, a datacenter card's being 1.
  double vision_speed() const { return v_datacenter / v_consumer; }
};

// Requests a unit of time.
double homogeneous_rate(double n, double v, double l);
// Consumer cards encode, datacenter cards run the language model.
double two_tier_rate(double n_consumer, double n_datacenter, const TierTimes& times);
// Consumer cards also take whole language requests. Optimum of the linear programme
//   max X  subject to  X v_C + Y l_C <= n_C,  (X - Y) l_D <= n_D,  0 <= Y <= X,
// Y being the rate of stolen requests.
double stealing_rate(double n_consumer, double n_datacenter, const TierTimes& times);
// Prefill with the pictures on the consumer cards, decode on the others.
double stage_rate(double n_consumer, double n_datacenter, double v_consumer,
                  double prefill_consumer, double decode_datacenter);
// n_C / n_D at which neither pool waits for the other.
double no_idle_ratio(const TierTimes& times);
// Share of the cost saved at equal throughput at that ratio, against datacenter cards alone:
// f_v (1 - rho / r), rho being the price of a consumer card over that of a datacenter card.
double saving_at_no_idle(double vision_share, double price_ratio, double vision_speed);
// The vision share that a saving needs.
double vision_share_for(double saving, double price_ratio, double vision_speed);
// Of any mix: 1 - (cost / rate) / (cost / rate of what it is compared with).
double saving(double cost, double rate, double other_cost, double other_rate);

}  // namespace hs
