// Where the patches of packed pictures stand while Qwen2.5-VL's tower runs: in window order, so
// that the rows of each window follow each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "media/image.h"

namespace hs {

// A picture's patches arrive in merge order: block by block of merge_size x merge_size patches, row
// by row in the block. Blocks ("units") are never torn apart; windows are squares of units, counted
// from the top left, and cut off at the right and bottom edges.
struct QwenVisionLayout {
  std::vector<int32_t> patch_of_row;  // (n patches): the packed patch that stands in each row
  // (2, n patches): the row's place in its picture, in patches from the top, then from the left
  std::vector<int32_t> positions;
  std::vector<int32_t> row_of_unit;    // (n units): where each packed unit stands among the units
  std::vector<int32_t> window_starts;  // (n windows + 1): first row of each window
  std::vector<int32_t> image_starts;   // (n images + 1)

  int64_t n_patches() const { return static_cast<int64_t>(patch_of_row.size()); }
  int64_t n_units() const { return static_cast<int64_t>(row_of_unit.size()); }

  // Lays the pictures out; memory is kept from call to call. REQUIRES: both sides of each grid are
  // multiples of merge_size, and window_units > 0.
  void set(std::span<const ImagePatches* const> images, int32_t merge_size, int32_t window_units);

 private:
  void add_image(int32_t grid_height, int32_t grid_width, int32_t merge_size, int32_t window_units);
  void add_unit(int32_t unit, int32_t row, int32_t col, int32_t first_patch, int32_t merge_size);
  std::vector<int32_t> columns_;  // positions from the left, while rows are being added
};

// The layout on the device: one piece of memory, one copy.
class QwenVisionIndices {
 public:
  static Result<QwenVisionIndices> allocate(Device& device, int64_t max_patches,
                                            int32_t merge_size);
  // Pointers below are valid until the next call.
  void upload(Device& device, const QwenVisionLayout& layout);

  const int32_t* patch_of_row() const { return patch_of_row_; }
  const int32_t* positions() const { return positions_; }
  const int32_t* row_of_unit() const { return row_of_unit_; }
  const int32_t* window_starts() const { return window_starts_; }
  const int32_t* image_starts() const { return image_starts_; }

 private:
  const int32_t* append(const std::vector<int32_t>& values);

  std::vector<int32_t> staging_;
  size_t used_ = 0;
  Buffer buffer_;
  const int32_t* patch_of_row_ = nullptr;
  const int32_t* positions_ = nullptr;
  const int32_t* row_of_unit_ = nullptr;
  const int32_t* window_starts_ = nullptr;
  const int32_t* image_starts_ = nullptr;
};

}  // namespace hs
