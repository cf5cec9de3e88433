// Measures what the devices draw, a few times a second, for the cost account.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "device/device_info.h"
#include "device/energy_counter.h"
#include "store/cost_account.h"

namespace hs {

// A counter for each of the devices (one for all CPU devices). Fails where one of them has none:
// half of the energy would be no energy. The error says which and why.
Result<std::vector<std::unique_ptr<EnergyCounter>>> open_energy_counters(
    const std::vector<DeviceInfo>& devices);

// A thread of its own, as a driver may take its time to answer.
class PowerSampler {
 public:
  // `account` and `clock` must outlive the sampler.
  PowerSampler(std::vector<std::unique_ptr<EnergyCounter>> counters, CostAccount& account,
               const Clock& clock);
  PowerSampler(const PowerSampler&) = delete;
  PowerSampler& operator=(const PowerSampler&) = delete;
  ~PowerSampler();

 private:
  void run();

  std::vector<std::unique_ptr<EnergyCounter>> counters_;
  CostAccount& account_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace hs
