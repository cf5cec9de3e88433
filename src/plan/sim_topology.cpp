#include "plan/sim_topology.h"

#include <fmt/format.h>

#include <algorithm>

namespace hs {
namespace {

constexpr int32_t kTowerBuffers = 2;  // as the engine has

class Builder {
 public:
  Builder(const SimArm& arm, const ModelShape& shape, const SimOptions& options)
      : arm_(arm), shape_(shape), options_(options) {
    result_.tiers.steal = arm.steal;
    result_.tiers.steal_delay_us = options.steal_delay_us;
    result_.tiers.steal_pause_us = options.steal_pause_us;
    result_.tiers.max_queue = options.limits.max_queue;
  }

  Result<SimTopology> build() {
    const bool colocated = arm_.partition == Partition::kColocated;
    if (arm_.datacenter.empty() && arm_.consumer.empty()) return incomplete("device");
    if (!colocated && arm_.consumer.empty()) return incomplete("consumer device");
    if (!colocated && arm_.datacenter.empty()) return incomplete("datacenter device");
    const bool stage = arm_.partition == Partition::kStage;
    for (const auto* pool : {&arm_.datacenter, &arm_.consumer}) {
      const bool consumer = pool == &arm_.consumer;
      for (const DeviceModel& device : *pool) {
        const int32_t index = add_device(device, consumer);
        const bool tower = colocated || consumer;
        if (tower) {
          result_.tiers.towers.push_back({index, colocated ? 0 : kTowerBuffers});
        }
        const UnitRole role = colocated  ? UnitRole::kServe
                              : consumer ? (stage ? UnitRole::kPrefill : UnitRole::kThief)
                                         : (stage ? UnitRole::kDecode : UnitRole::kServe);
        if (role == UnitRole::kThief && arm_.steal == StealMode::kOff) continue;
        if (Status added = add_unit(device, index, role, tower); !added) {
          return std::unexpected(added.error());
        }
      }
    }
    choose_towers(colocated);
    return std::move(result_);
  }

 private:
  Result<SimTopology> incomplete(std::string_view what) const {
    return fail(ErrorKind::kInvalidArgument, fmt::format("the arm {} has no {}", arm_.name, what));
  }

  int32_t add_device(const DeviceModel& device, bool consumer) {
    int32_t& count = consumer ? n_consumers_ : n_datacenters_;
    result_.devices.push_back(&device);
    const std::string many =
        device.n_cards() > 1 ? fmt::format("{} x ", device.n_cards()) : std::string();
    result_.names.push_back(fmt::format("{}:{} {}{}", consumer ? "consumer" : "datacenter", count++,
                                        many, device.card().key));
    return static_cast<int32_t>(result_.devices.size()) - 1;
  }

  Status add_unit(const DeviceModel& device, int32_t index, UnitRole role, bool tower) {
    const ServingLimits& limits = options_.limits;
    const int64_t n_blocks = device.kv_tokens(tower) / limits.block_size;
    if (n_blocks < 1) {
      // A thief is a bonus; the engine goes without one, too.
      if (role == UnitRole::kThief) return {};
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("{} does not fit {} (memory_gb {}): the weights leave no room for "
                              "keys and values",
                              shape_.name, result_.names.back(), device.card().memory_gb),
                  "does_not_fit", "memory_gb");
    }
    constexpr int64_t kBlocksMax = 1 << 24;
    SchedulerConfig scheduling{.block_size = limits.block_size,
                               .n_blocks = static_cast<int32_t>(std::min(n_blocks, kBlocksMax)),
                               .max_model_len = shape_.language.max_positions,
                               .max_num_seqs = limits.max_num_seqs,
                               .max_num_batched_tokens = limits.max_num_batched_tokens,
                               .max_encode_images = limits.max_encode_images,
                               .embedding_rows = limits.embedding_rows,
                               .max_encode_rows = limits.embedding_rows,
                               .prefix_cache = false,
                               .overlap = arm_.overlap};
    result_.tiers.units.push_back(
        {.device = index, .role = role, .scheduling = scheduling, .towers = {}});
    result_.n_seqs += limits.max_num_seqs;
    return {};
  }

  void choose_towers(bool own_only) {
    for (TierConfig::Unit& unit : result_.tiers.units) {
      for (int32_t t = 0; t < static_cast<int32_t>(result_.tiers.towers.size()); ++t) {
        const bool own = result_.tiers.towers[static_cast<size_t>(t)].device == unit.device;
        if (own || !own_only) unit.towers.push_back(t);
      }
    }
  }

  const SimArm& arm_;
  const ModelShape& shape_;
  const SimOptions& options_;
  SimTopology result_;
  int32_t n_consumers_ = 0;
  int32_t n_datacenters_ = 0;
};

}  // namespace

Result<SimTopology> make_sim_topology(const SimArm& arm, const ModelShape& shape,
                                      const SimOptions& options) {
  return Builder(arm, shape, options).build();
}

}  // namespace hs
