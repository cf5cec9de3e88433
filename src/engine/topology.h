// Which tower and which language model stands on which device, and what each is for.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "device/peer_link.h"
#include "engine/partition.h"
#include "engine/tier_scheduler.h"
#include "model/model.h"

namespace hs {

// What to load where: LoadOptions takes the devices, the engine the roles.
struct Placement {
  std::vector<Device*> tower_devices;
  std::vector<DeviceGroup> language_devices;
  std::vector<UnitRole> roles;  // as language_devices
  bool own_towers = false;      // a unit's pictures are encoded on its device only
};

// REQUIRES: both lists hold a device, or partition is kColocated and one does. A text-only model
// loads no towers: with it the consumer devices of kModality work as thieves or not at all.
// Every n_ranks datacenter devices share a language model: more than one with kModality only, and a
// divisor of their number.
Placement place(const std::vector<Device*>& consumer, const std::vector<Device*>& datacenter,
                Partition partition, bool steals, int32_t n_ranks = 1);

struct EngineTopology {
  struct Tower {
    VisionModel* model = nullptr;
    Device* device = nullptr;
  };
  struct Unit {
    LanguageModel* model = nullptr;
    Projector* projector = nullptr;           // on the same device, where towers give features
    Device* device = nullptr;                 // of rank 0, where the embeddings are received
    std::vector<Device*> other_devices = {};  // of the model's ranks 1, 2, ...
    UnitRole role = UnitRole::kServe;
  };
  std::vector<Tower> towers;
  std::vector<Unit> units;
  bool own_towers = false;
  LinkChoice transfer = LinkChoice::kAuto;
  bool verify_transfers = true;
};

// The model as loaded with the placement's devices.
EngineTopology make_topology(Model& model, const Placement& placement);
// One device for everything.
EngineTopology make_topology(Model& model, Device& device);

}  // namespace hs
