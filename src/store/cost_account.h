// What a request costs: its share of the energy and of the hours of the devices, evenly among the
// requests that are under way.
//
//   energy = integral of power(t) / n(t) dt
//   cost   = energy * price of a kWh + integral of (hour prices of all devices) / n(t) dt
//
// n(t) is the number of requests under way, power(t) what was last measured of the devices
// together, idle power included. So the requests' shares add up to what was drawn while there were
// any.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "base/clock.h"

namespace hs {

class CostAccount {
 public:
  // Prices are in any one currency; 0: none. `clock` must outlive the account.
  CostAccount(const Clock& clock, double kwh_price);

  // Any thread, all of them.

  // Of all devices together, for an hour.
  void set_hour_price(double price);
  // From now on. Absent: not known, and so is the energy of all requests under way meanwhile.
  void set_power(std::optional<double> watts);

  // What has been added up for each request under way, so far.
  struct Mark {
    double joules = 0;
    double hour_cost = 0;
    int64_t unknown_us = 0;  // time without a known power
  };
  Mark begin();
  struct Share {
    int64_t energy_uj = -1;    // -1: not known
    int64_t cost_micros = -1;  // -1: no price, or one of energy that is not known
  };
  // Of a request that began at `mark`.
  Share end(const Mark& mark);

 private:
  void advance();  // to now, with the mutex

  const Clock& clock_;
  const double kwh_price_;
  std::mutex mutex_;
  double hour_price_ = 0;
  std::optional<double> watts_;
  int64_t n_ = 0;
  int64_t at_us_ = 0;
  Mark sums_;
};

}  // namespace hs
