// Start: configuration checked, memory allocated, links tried.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/engine_impl.h"

namespace hs {
namespace {

constexpr int32_t kTowerBuffers = 2;  // one is filled while the other is emptied

Status check_positive(std::string_view name, int64_t value) {
  if (value > 0) return {};
  return fail(ErrorKind::kInvalidArgument, fmt::format("{} must be positive, not {}", name, value),
              {}, std::string(name));
}

Result<EngineConfig> resolve_config(EngineConfig config, const ModelSpec& spec) {
  const std::pair<std::string_view, int64_t> positives[] = {
      {"max_num_seqs", config.max_num_seqs},
      {"max_num_batched_tokens", config.max_num_batched_tokens},
      {"kv_blocks", config.kv_blocks},
      {"max_queue", config.max_queue},
      {"max_encode_images", config.max_encode_images},
      {"embedding_cache_rows", config.embedding_cache_rows}};
  for (const auto& [name, value] : positives) {
    if (Status status = check_positive(name, value); !status) {
      return std::unexpected(status.error());
    }
  }
  if (config.max_model_len < 0 || config.max_model_len > spec.max_model_len) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("max_model_len {} is not in 1 .. {} that the model has",
                            config.max_model_len, spec.max_model_len),
                {}, "max_model_len");
  }
  if (config.max_model_len == 0) config.max_model_len = spec.max_model_len;
  return config;
}

SchedulerConfig scheduler_config(const EngineConfig& config, const ModelSpec& spec, bool vision) {
  SchedulerConfig result{.block_size = spec.kv_layout.block_size,
                         .n_blocks = config.kv_blocks,
                         .max_model_len = config.max_model_len,
                         .max_num_seqs = config.max_num_seqs,
                         .max_num_batched_tokens = config.max_num_batched_tokens,
                         .max_encode_images = config.max_encode_images,
                         .prefix_cache = config.prefix_cache,
                         .overlap = config.overlap};
  if (!vision) return result;
  result.embedding_rows = config.embedding_cache_rows;
  // No prompt can ask for more than its length in one picture, and no tower encodes more.
  result.max_encode_rows = std::min<int64_t>(result.embedding_rows, config.max_model_len);
  if (spec.max_encode_rows > 0) {
    result.max_encode_rows = std::min(result.max_encode_rows, spec.max_encode_rows);
  }
  return result;
}

// Builds up the parts of an engine.
class Builder {
 public:
  Builder(const Model& model, const EngineTopology& topology, const EngineConfig& config)
      : model_(model), topology_(topology) {
    parts_.config = config;
    parts_.verify_transfers = topology.verify_transfers;
    parts_.tiers.max_queue = config.max_queue;
    parts_.tiers.steal = config.steal;
    parts_.tiers.steal_delay_us = config.steal_delay_us;
    parts_.tiers.steal_pause_us = config.steal_pause_us;
  }

  Result<EngineParts> build() {
    for (const EngineTopology::Unit& unit : topology_.units) {
      if (Status status = add_unit(unit); !status) return std::unexpected(status.error());
    }
    for (const EngineTopology::Tower& tower : topology_.towers) {
      if (Status status = add_tower(tower); !status) return std::unexpected(status.error());
    }
    choose_towers();
    if (Status status = add_links(); !status) return std::unexpected(status.error());
    return std::move(parts_);
  }

 private:
  size_t lane_of(Device* device) {
    const auto it = std::ranges::find(parts_.devices, device);
    if (it != parts_.devices.end()) return static_cast<size_t>(it - parts_.devices.begin());
    parts_.devices.push_back(device);
    return parts_.devices.size() - 1;
  }

  Status add_unit(const EngineTopology::Unit& unit) {
    HS_CHECK_EQ(unit.model->n_ranks(), std::ssize(unit.other_devices) + 1);
    HS_CHECK(unit.other_devices.empty() || unit.role == UnitRole::kServe);
    const bool vision = !topology_.towers.empty();
    if (Status status = unit.model->allocate_kv(parts_.config.kv_blocks); !status) return status;
    const size_t lane = lane_of(unit.device);
    EngineUnit made{.lane = lane, .rank_lanes = {lane}, .model = unit.model, .role = unit.role};
    std::vector<int32_t> other_lanes;
    for (Device* device : unit.other_devices) {
      made.rank_lanes.push_back(lane_of(device));
      other_lanes.push_back(static_cast<int32_t>(made.rank_lanes.back()));
    }
    const SchedulerConfig scheduling = scheduler_config(parts_.config, model_.spec, vision);
    if (vision) {
      auto intake =
          EmbeddingIntake::create(*unit.device, {.dim = model_.spec.dim,
                                                 .n_rows = scheduling.embedding_rows,
                                                 .projector = unit.projector,
                                                 .feature_dim = model_.spec.feature_dim,
                                                 .max_arriving_rows = scheduling.max_encode_rows});
      if (!intake) return std::unexpected(intake.error());
      made.intake = std::move(*intake);
    }
    parts_.tiers.units.push_back({.device = static_cast<int32_t>(made.lane),
                                  .role = unit.role,
                                  .scheduling = scheduling,
                                  .towers = {},
                                  .other_devices = std::move(other_lanes)});
    parts_.units.push_back(std::move(made));
    return {};
  }

  // A tower that encodes for its own device only needs no buffers.
  Status add_tower(const EngineTopology::Tower& tower) {
    const size_t lane = lane_of(tower.device);
    const bool remote =
        !topology_.own_towers && std::ranges::any_of(parts_.units, [&](const EngineUnit& unit) {
          return unit.lane != lane;
        });
    const int32_t n_buffers = remote ? kTowerBuffers : 0;
    auto output = TowerOutput::create(
        *tower.model, *tower.device,
        {.dim = model_.spec.tower_dim(),
         .max_encode_rows = parts_.tiers.units.front().scheduling.max_encode_rows,
         .n_buffers = n_buffers});
    if (!output) return std::unexpected(output.error());
    parts_.towers.push_back({.lane = lane, .output = std::move(*output)});
    parts_.tiers.towers.push_back({.device = static_cast<int32_t>(lane), .n_buffers = n_buffers});
    return {};
  }

  void choose_towers() {
    for (TierConfig::Unit& unit : parts_.tiers.units) {
      for (int32_t t = 0; t < static_cast<int32_t>(parts_.tiers.towers.size()); ++t) {
        const bool own = parts_.tiers.towers[static_cast<size_t>(t)].device == unit.device;
        if (own || !topology_.own_towers) unit.towers.push_back(t);
      }
    }
  }

  Status add_link(size_t from, size_t to) {
    const auto known = [&](const EngineLink& link) { return link.from == from && link.to == to; };
    if (from == to || std::ranges::any_of(parts_.links, known)) return {};
    Device& source = *parts_.devices[from];
    Device& target = *parts_.devices[to];
    if (source.activation_dtype() != target.activation_dtype()) {
      return fail(ErrorKind::kUnsupported,
                  fmt::format("embeddings are {} on {} but {} on {}",
                              dtype_name(source.activation_dtype()), to_string(source.id()),
                              dtype_name(target.activation_dtype()), to_string(target.id())));
    }
    auto link = PeerLink::open(source, target, topology_.transfer, {});
    if (!link) return std::unexpected(link.error());
    parts_.links.push_back({.from = from, .to = to, .link = std::move(*link)});
    return {};
  }

  Status add_links() {
    for (size_t u = 0; u < parts_.units.size(); ++u) {
      const size_t to = parts_.units[u].lane;
      for (const int32_t t : parts_.tiers.units[u].towers) {
        const size_t from = parts_.towers[static_cast<size_t>(t)].lane;
        if (Status status = add_link(from, to); !status) return status;
      }
      if (parts_.units[u].role != UnitRole::kDecode) continue;
      for (const EngineUnit& source : parts_.units) {
        if (source.role != UnitRole::kPrefill) continue;
        if (Status status = add_link(source.lane, to); !status) return status;
      }
    }
    return {};
  }

  const Model& model_;
  const EngineTopology& topology_;
  EngineParts parts_;
};

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const Model& model, const EngineTopology& topology,
                                               const EngineConfig& config, const Clock& clock,
                                               std::function<void()> wake) {
  HS_CHECK(!topology.units.empty());
  const Result<EngineConfig> resolved = resolve_config(config, model.spec);
  if (!resolved) return std::unexpected(resolved.error());
  Result<EngineParts> parts = Builder(model, topology, *resolved).build();
  if (!parts) return std::unexpected(parts.error());
  return std::make_unique<EngineImpl>(model, std::move(*parts), clock, std::move(wake));
}

}  // namespace hs
