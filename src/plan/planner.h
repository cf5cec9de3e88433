// Which arm and which mix of cards serves a workload at the least cost, within a latency target.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/arms.h"

namespace hs {

struct PlanQuery {
  double rate = 0;  // requests a second; 0: as many as can be, and no latency target
  double ttft_ms = 2000;
  double tpot_ms = 50;
  double share = 0.9;        // of the requests that must meet both
  int32_t max_devices = 8;   // of both kinds together
  int64_t n_requests = 600;  // of each simulated try
  uint64_t seed = 1;
};

// The cheapest mix of one arm.
struct PlanChoice {
  ArmKind kind = ArmKind::kDatacenter;
  std::optional<Mix> mix;  // none: no mix will do, `why` says so
  std::string why;
  double capacity_per_s = 0;  // closed form
  double price_usd = 0;
  double usd_per_s = 0;
  double usd_per_request = 0;          // at the rate asked for, or at capacity
  std::optional<SimResult> simulated;  // at the rate asked for
};

// One choice an arm, the cheapest first, arms without a mix last. Mixes are tried from the cheapest
// on, those that the closed form says are too slow left out; with a rate each is simulated with
// Poisson arrivals.
Result<std::vector<PlanChoice>> rank_arms(const ArmModel& model, const ModelShape& shape,
                                          const Workload& workload, const SimOptions& options,
                                          const CostRates& cost, const PlanQuery& query);

// Whether two tiers pay, why, and what would change that: sentences.
std::vector<std::string> verdict(const ArmModel& model, const std::vector<PlanChoice>& ranking,
                                 const CostRates& cost);

}  // namespace hs
