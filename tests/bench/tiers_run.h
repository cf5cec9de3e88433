// One run of a traffic through one arrangement of two CPU devices of one core each.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/tiers_traffic.h"
#include "engine/engine.h"
#include "engine/topology.h"
#include "model/model.h"

namespace hs {

struct TiersArm {
  std::string name;
  Partition partition = Partition::kModality;
  StealMode steal = StealMode::kOff;
  bool overlap = true;
};

struct TiersRun {
  double seconds = 0;  // first arrival to last token
  int64_t output_tokens = 0;
  std::vector<double> encode_latency_us;   // of each picture: submitted to encoded
  std::vector<double> transfer_share;      // of each request that anything was moved for
  std::vector<double> first_token_us;      // of requests with pictures
  std::vector<double> any_first_token_us;  // of all
  double longest_stolen_step_us = 0;
  double vision_share = 0;     // of the time the devices worked
  double busy[2] = {0, 0};     // part of `seconds` that each device worked
  int64_t expected_bytes = 0;  // that the formulas say; -1: depends on what was stolen
  int64_t request_bytes = 0;   // sum over the requests' timings
  int64_t timeline_bytes = 0;  // sum over the lanes' orders
  EngineStats stats;
  uint64_t text_hash = 0;  // of all outputs
  std::string failure;     // of any request
  std::vector<LaneTimeline> timeline;
};

class TiersBench {
 public:
  // Pins one device to a core of each half of the process's cores. Errors: fewer than two cores.
  static Result<TiersBench> open(const std::string& model_path, DType dtype);

  // For make_traffic(): prompts alone need no weights of a certain arrangement.
  const Model& any_model() const { return *prompts_; }

  // Loads the model for the arm, then plays the traffic over `length_s` seconds (0: all at once, or
  // rather at most `at_once` under way).
  Result<TiersRun> run(const TiersArm& arm, std::span<const Arrival> traffic, double length_s,
                       size_t at_once = std::numeric_limits<size_t>::max());

  // The consumer's first.
  std::vector<Device*> devices() const;
  // What run() gives the engine.
  static EngineConfig engine_config(const TiersArm& arm);

 private:
  TiersBench() = default;
  Result<Model> load(const std::vector<Device*>& towers, const std::vector<DeviceGroup>& languages);

  std::string path_;
  DType dtype_ = DType::kBF16;
  std::vector<std::unique_ptr<Device>> devices_;  // consumer, datacenter
  std::unique_ptr<Model> prompts_;
};

}  // namespace hs
