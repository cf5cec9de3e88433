// One device under measurement: its models, and one call for each kind of work.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "app/calibrate.h"
#include "engine/tower_output.h"
#include "model/model.h"

namespace hs {

// Calls run on a thread that is attached to the device.
class CalibrationDevice {
 public:
  CalibrationDevice(Device& device, Model& model, size_t index, const CalibrationOptions& options)
      : device_(device), model_(model), index_(index), options_(options) {}

  // Fills the KV cache with small numbers, so that reading it is reading memory.
  Status prepare(int64_t n_blocks);
  Device& device() { return device_; }
  LanguageModel& language() { return *model_.languages[index_]; }
  int64_t n_blocks() const { return n_blocks_; }

  // A step, as MeasuredStep says it. REQUIRES: it fits the cache and the token budget.
  Status step(const MeasuredStep& what);
  // An encode order with the checks that the engine has. `picture`: of the model's preprocessing.
  Status encode(int32_t n_pictures, const std::shared_ptr<const ImagePatches>& picture);

 private:
  void make_step(const MeasuredStep& what);

  Device& device_;
  Model& model_;
  size_t index_;
  const CalibrationOptions& options_;
  int64_t n_blocks_ = 0;
  LanguageStep step_;
  std::vector<SampledToken> sampled_;
  Buffer rows_;
  std::unique_ptr<TowerOutput> tower_;
};

}  // namespace hs
