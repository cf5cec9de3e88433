// Scripts of events for a TierScheduler, and what it orders.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/tier_scheduler.h"

namespace hs::test {

inline SchedulerConfig unit_config(int32_t n_blocks = 100) {
  return {.block_size = 4,
          .n_blocks = n_blocks,
          .max_model_len = 1000,
          .max_num_seqs = 8,
          .max_num_batched_tokens = 16,
          .max_encode_images = 2,
          .embedding_rows = 32,
          .max_encode_rows = 32};
}

// Device 0 has the tower and a unit of role `consumer`, device 1 a unit of role `datacenter`.
inline TierConfig two_devices(UnitRole consumer, UnitRole datacenter) {
  TierConfig config;
  config.towers = {{.device = 0, .n_buffers = 2}};
  config.units = {{.device = 1, .role = datacenter, .scheduling = unit_config(), .towers = {0}},
                  {.device = 0, .role = consumer, .scheduling = unit_config(), .towers = {0}}};
  config.steal = StealMode::kOn;
  return config;
}

// Device 0 has the tower, device 1 the only unit.
inline TierConfig modality() {
  TierConfig config = two_devices(UnitRole::kThief, UnitRole::kServe);
  config.units.pop_back();
  return config;
}

inline std::vector<ImageOutcome> outcomes_of(const TransferOrder& order, bool ok) {
  return std::vector<ImageOutcome>(order.items.size(),
                                   ok ? ImageOutcome::kOk : ImageOutcome::kFailed);
}

inline PromptImage image_at(int32_t first, uint64_t picture, int32_t n_rows) {
  return {.first = first, .key = {.content_hash = {picture, 0}, .n_rows = n_rows}};
}

struct Script {
  explicit Script(const TierConfig& config)
      : tiers(config), steps(config.units.size()), encodes(config.towers.size()) {}

  Result<int32_t> arrive(RequestId id, int32_t n_prompt, std::vector<PromptImage> images = {},
                         int32_t n_choices = 1, int32_t max_tokens = 50, uint64_t tenant = 0) {
    NewRequest request{.id = id,
                       .prompt = {},
                       .images = std::move(images),
                       .n_choices = n_choices,
                       .max_tokens = max_tokens,
                       .tenant = tenant};
    for (int32_t i = 0; i < n_prompt; ++i) {
      request.prompt.push_back(static_cast<int32_t>(id) * 1000 + i);
    }
    return tiers.arrived(std::move(request));
  }
  // "unit>request/image..." of each order.
  std::string encode() {
    std::string text;
    EncodeOrder order;
    while (tiers.next_encode(order)) {
      text += fmt::format("{}{}>", text.empty() ? "" : " ", order.unit);
      for (const EncodeOrder::Item& item : order.items) {
        text += fmt::format("{}/{}{}", item.request, item.image, order.buffer < 0 ? "!" : "");
      }
      encodes[static_cast<size_t>(order.tower)] = order;
    }
    return text.empty() ? "-" : text;
  }
  std::vector<RequestId> encode_done(size_t tower = 0, int64_t duration_us = 1000) {
    std::vector<RequestId> failed;
    const std::vector<ImageOutcome> outcomes(encodes[tower].items.size(), ImageOutcome::kOk);
    tiers.encode_done(encodes[tower], outcomes, duration_us, failed);
    return failed;
  }
  std::string step(int32_t unit) {
    StepOrder& order = steps[static_cast<size_t>(unit)];
    if (!tiers.next_step(unit, order)) return "-";
    std::string text;
    for (const StepOrder::Item& item : order.items) {
      text += fmt::format("{}{}:{}+{}{}", text.empty() ? "" : " ", item.sequence->request->id,
                          item.first, item.count, item.sample ? "!" : "");
    }
    return text;
  }
  void step_done(int32_t unit, int64_t duration_us = 1000) {
    std::vector<int32_t> tokens;
    for (const StepOrder::Item& item : steps[static_cast<size_t>(unit)].items) {
      if (item.sample) tokens.push_back(next_token++);
    }
    tiers.step_done(unit, tokens, duration_us);
  }
  std::string run(int32_t unit, int64_t duration_us = 1000) {
    std::string text = step(unit);
    if (text != "-") step_done(unit, duration_us);
    return text;
  }

  TierScheduler tiers;
  std::vector<StepOrder> steps;      // out, by unit
  std::vector<EncodeOrder> encodes;  // out, by tower
  int32_t next_token = 100'000;
};

}  // namespace hs::test
