#include "engine/topology.h"

#include <algorithm>

#include "base/check.h"

namespace hs {
namespace {

void add_unique(std::vector<Device*>& list, Device* device) {
  if (std::ranges::find(list, device) == list.end()) list.push_back(device);
}

}  // namespace

Placement place(const std::vector<Device*>& consumer, const std::vector<Device*>& datacenter,
                Partition partition, bool steals) {
  Placement result;
  const auto add_unit = [&](Device* device, UnitRole role) {
    if (std::ranges::find(result.language_devices, device) != result.language_devices.end()) return;
    result.language_devices.push_back(device);
    result.roles.push_back(role);
  };
  if (partition == Partition::kColocated) {
    for (const auto* pool : {&datacenter, &consumer}) {
      for (Device* device : *pool) {
        add_unique(result.tower_devices, device);
        add_unit(device, UnitRole::kServe);
      }
    }
    result.own_towers = true;
    return result;
  }
  HS_CHECK(!consumer.empty() && !datacenter.empty());
  result.tower_devices = consumer;
  const bool stage = partition == Partition::kStage;
  for (Device* device : datacenter) add_unit(device, stage ? UnitRole::kDecode : UnitRole::kServe);
  if (!stage && !steals) return result;
  for (Device* device : consumer) add_unit(device, stage ? UnitRole::kPrefill : UnitRole::kThief);
  return result;
}

EngineTopology make_topology(Model& model, const Placement& placement) {
  HS_CHECK_EQ(model.languages.size(), placement.language_devices.size());
  EngineTopology topology;
  topology.own_towers = placement.own_towers;
  for (size_t i = 0; i < model.towers.size(); ++i) {
    topology.towers.push_back({model.towers[i].get(), placement.tower_devices[i]});
  }
  for (size_t i = 0; i < model.languages.size(); ++i) {
    topology.units.push_back(
        {.model = model.languages[i].get(),
         .projector = model.spec.cut_before_projector ? model.projectors.at(i).get() : nullptr,
         .device = placement.language_devices[i],
         .role = placement.roles[i]});
  }
  return topology;
}

EngineTopology make_topology(Model& model, Device& device) {
  return make_topology(model, place({}, {&device}, Partition::kColocated, false));
}

}  // namespace hs
