#include "model/qwen_vision_layout.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace hs {

namespace {

constexpr size_t kAlignment = 16;  // numbers, so 64 bytes

constexpr size_t padded(size_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void QwenVisionLayout::set(std::span<const ImagePatches* const> images, int32_t merge_size,
                           int32_t window_units) {
  HS_CHECK_GT(window_units, 0);
  patch_of_row.clear();
  positions.clear();
  columns_.clear();
  row_of_unit.clear();
  window_starts.assign(1, 0);
  image_starts.assign(1, 0);
  for (const ImagePatches* image : images) {
    HS_CHECK(image->grid_height > 0 && image->grid_height % merge_size == 0);
    HS_CHECK(image->grid_width > 0 && image->grid_width % merge_size == 0);
    add_image(image->grid_height, image->grid_width, merge_size, window_units);
  }
  positions.insert(positions.end(), columns_.begin(), columns_.end());
}

void QwenVisionLayout::add_image(int32_t grid_height, int32_t grid_width, int32_t merge_size,
                                 int32_t window_units) {
  const int32_t height = grid_height / merge_size;
  const int32_t width = grid_width / merge_size;
  const auto first_unit = static_cast<int32_t>(row_of_unit.size());
  const int32_t first_patch = image_starts.back();
  row_of_unit.resize(row_of_unit.size() + static_cast<size_t>(height) * static_cast<size_t>(width));
  int32_t next = first_unit;
  for (int32_t top = 0; top < height; top += window_units) {
    for (int32_t left = 0; left < width; left += window_units) {
      for (int32_t row = top; row < std::min(top + window_units, height); ++row) {
        for (int32_t col = left; col < std::min(left + window_units, width); ++col) {
          const int32_t unit = row * width + col;
          row_of_unit[static_cast<size_t>(first_unit + unit)] = next++;
          add_unit(unit, row, col, first_patch, merge_size);
        }
      }
      window_starts.push_back(static_cast<int32_t>(patch_of_row.size()));
    }
  }
  image_starts.push_back(static_cast<int32_t>(patch_of_row.size()));
}

void QwenVisionLayout::add_unit(int32_t unit, int32_t row, int32_t col, int32_t first_patch,
                                int32_t merge_size) {
  int32_t patch = first_patch + unit * merge_size * merge_size;
  for (int32_t y = 0; y < merge_size; ++y) {
    for (int32_t x = 0; x < merge_size; ++x) {
      patch_of_row.push_back(patch++);
      positions.push_back(row * merge_size + y);
      columns_.push_back(col * merge_size + x);
    }
  }
}

Result<QwenVisionIndices> QwenVisionIndices::allocate(Device& device, int64_t max_patches,
                                                      int32_t merge_size) {
  const auto patches = static_cast<size_t>(max_patches);
  const size_t units = patches / static_cast<size_t>(merge_size * merge_size);
  // A window, like a picture, has at least one unit.
  const size_t n = padded(patches) + padded(2 * patches) + padded(units) + 2 * padded(units + 1);
  QwenVisionIndices indices;
  auto buffer = device.allocate(n * sizeof(int32_t));
  if (!buffer) return std::unexpected(std::move(buffer.error()));
  indices.buffer_ = std::move(*buffer);
  indices.staging_.resize(n);
  return indices;
}

const int32_t* QwenVisionIndices::append(const std::vector<int32_t>& values) {
  HS_CHECK_LE(used_ + padded(values.size()), staging_.size());
  std::ranges::copy(values, staging_.begin() + static_cast<std::ptrdiff_t>(used_));
  const int32_t* on_device = buffer_.as<int32_t>() + used_;
  used_ += padded(values.size());
  return on_device;
}

void QwenVisionIndices::upload(Device& device, const QwenVisionLayout& layout) {
  used_ = 0;
  patch_of_row_ = append(layout.patch_of_row);
  positions_ = append(layout.positions);
  row_of_unit_ = append(layout.row_of_unit);
  window_starts_ = append(layout.window_starts);
  image_starts_ = append(layout.image_starts);
  device.upload(staging_.data(), buffer_.data(), used_ * sizeof(int32_t));
}

}  // namespace hs
