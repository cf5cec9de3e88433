#include "engine/topology.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hs {
namespace {

void add_unique(std::vector<Device*>& list, Device* device) {
  if (std::ranges::find(list, device) == list.end()) list.push_back(device);
}

}  // namespace

Placement place(const std::vector<Device*>& consumer, const std::vector<Device*>& datacenter,
                Partition partition, bool steals, int32_t n_ranks) {
  Placement result;
  const auto add_unit = [&](DeviceGroup group, UnitRole role) {
    for (const DeviceGroup& other : result.language_devices) {
      if (std::ranges::find(other.ranks, group.ranks.front()) != other.ranks.end()) return;
    }
    result.language_devices.push_back(std::move(group));
    result.roles.push_back(role);
  };
  HS_CHECK(n_ranks == 1 || partition == Partition::kModality);
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
  HS_CHECK_EQ(std::ssize(datacenter) % n_ranks, 0);
  for (auto first = datacenter.begin(); first != datacenter.end(); first += n_ranks) {
    add_unit(DeviceGroup(std::vector<Device*>(first, first + n_ranks)),
             stage ? UnitRole::kDecode : UnitRole::kServe);
  }
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
    const std::vector<Device*>& ranks = placement.language_devices[i].ranks;
    topology.units.push_back(
        {.model = model.languages[i].get(),
         .projector = model.spec.cut_before_projector ? model.projectors.at(i).get() : nullptr,
         .device = ranks.front(),
         .other_devices = {ranks.begin() + 1, ranks.end()},
         .role = placement.roles[i]});
  }
  return topology;
}

EngineTopology make_topology(Model& model, Device& device) {
  return make_topology(model, place({}, {&device}, Partition::kColocated, false));
}

}  // namespace hs
