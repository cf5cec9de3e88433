// The vision side of the hand-over: runs the tower, and holds the rows that are on their way to
// another device in buffers on the tower's own. Allocated once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "engine/scheduler.h"
#include "model/model.h"

namespace hs {

class TowerOutput {
 public:
  struct Options {
    int32_t dim = 0;              // width of the rows it gives
    int64_t max_encode_rows = 0;  // of one encode order
    int32_t n_buffers = 0;        // 0: it encodes for its own device only
  };
  // Both must outlive the result.
  static Result<std::unique_ptr<TowerOutput>> create(VisionModel& tower, Device& device,
                                                     const Options& options);
  TowerOutput(const TowerOutput&) = delete;
  TowerOutput& operator=(const TowerOutput&) = delete;

  // Rows of a buffer. Any thread.
  Matrix rows(int32_t buffer, int64_t first, int64_t n) const;
  size_t row_bytes() const { return static_cast<size_t>(options_.dim) * dtype_bytes(dtype_); }

  // Vision lane. Runs the tower over the order's pictures and leaves the rows in `out`, which has
  // order.n_rows of them and stands on the tower's device. outcomes: kFailed for each picture with
  // a NaN or infinity among its rows.
  Status encode(const EncodeOrder& order,
                std::span<const std::shared_ptr<const ImagePatches>> images, Matrix out,
                std::span<ImageOutcome> outcomes);

 private:
  TowerOutput(VisionModel& tower, Device& device, const Options& options)
      : tower_(tower), device_(device), options_(options), dtype_(device.activation_dtype()) {}

  VisionModel& tower_;
  Device& device_;
  Options options_;
  DType dtype_;
  Buffer memory_;  // (n_buffers, max_encode_rows, dim)
};

}  // namespace hs
