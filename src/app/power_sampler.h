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

// A thread of its own, as a driver may take its time to open and to answer. There is a counter for
// each device (one for all CPU devices), or, where one of them has none, no energy at all: half of
// it would be none. The log says which and why.
class PowerSampler {
 public:
  // `account` and `clock` must outlive the sampler. is_priced: energy has a price, so that it is a
  // pity when it is not known.
  PowerSampler(std::vector<DeviceInfo> devices, bool is_priced, CostAccount& account,
               const Clock& clock);
  PowerSampler(const PowerSampler&) = delete;
  PowerSampler& operator=(const PowerSampler&) = delete;
  ~PowerSampler();

 private:
  void run();
  void sample(std::vector<std::unique_ptr<EnergyCounter>>& counters);

  const std::vector<DeviceInfo> devices_;
  const bool is_priced_;
  CostAccount& account_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace hs
