// Which towers and language units an arm has, as the engine would build them from real devices
// (engine/topology.h, engine_create.cpp).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/tier_scheduler.h"
#include "plan/simulator.h"

namespace hs {

struct SimTopology {
  TierConfig tiers;  // its devices are indices of `devices`
  std::vector<const DeviceModel*> devices;
  std::vector<std::string> names;
  int32_t n_seqs = 0;  // sequences that all units together can run
};

// The arm must outlive the result.
Result<SimTopology> make_sim_topology(const SimArm& arm, const ModelShape& shape,
                                      const SimOptions& options);

}  // namespace hs
