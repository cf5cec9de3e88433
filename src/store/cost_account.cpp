#include "store/cost_account.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace hs {
namespace {

constexpr double kJoulesOfKwh = 3.6e6;
constexpr double kUsOfHour = 3.6e9;

int64_t micros(double value) {
  return std::llround(value * 1e6);
}

}  // namespace

CostAccount::CostAccount(const Clock& clock, double kwh_price)
    : clock_(clock), kwh_price_(kwh_price), at_us_(clock.now_us()) {}

void CostAccount::advance() {
  const int64_t now_us = clock_.now_us();
  const int64_t passed_us = std::max<int64_t>(now_us - at_us_, 0);
  at_us_ = now_us;
  if (n_ == 0) return;  // nobody's
  const double share_us = static_cast<double>(passed_us) / static_cast<double>(n_);
  if (watts_)
    sums_.joules += *watts_ * share_us * 1e-6;
  else
    sums_.unknown_us += passed_us;
  sums_.hour_cost += hour_price_ * share_us / kUsOfHour;
}

void CostAccount::set_hour_price(double price) {
  const std::lock_guard lock(mutex_);
  advance();
  hour_price_ = price;
}

void CostAccount::set_power(std::optional<double> watts) {
  const std::lock_guard lock(mutex_);
  advance();
  watts_ = watts;
}

CostAccount::Mark CostAccount::begin() {
  const std::lock_guard lock(mutex_);
  advance();
  ++n_;
  return sums_;
}

CostAccount::Share CostAccount::end(const Mark& mark) {
  const std::lock_guard lock(mutex_);
  HS_CHECK_GT(n_, 0);
  advance();
  --n_;
  Share share;
  // One that took no time at all while the power was not known has no energy that was measured.
  const bool measured = sums_.unknown_us == mark.unknown_us && watts_.has_value();
  const double joules = sums_.joules - mark.joules;
  if (measured) share.energy_uj = micros(joules);
  const bool priced = kwh_price_ > 0 || hour_price_ > 0;
  if (priced && (measured || kwh_price_ == 0))
    share.cost_micros =
        micros(joules / kJoulesOfKwh * kwh_price_ + sums_.hour_cost - mark.hour_cost);
  return share;
}

}  // namespace hs
