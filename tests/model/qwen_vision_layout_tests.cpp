// Qwen2.5-VL's window order is the reference's: every merged block of every picture once, window by
// window from the top left, ragged at the edges, with the place in the picture that each patch has.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <numeric>
#include <tuple>
#include <vector>

#include "model/qwen_vision_layout.h"
#include "support/backends.h"

namespace hs::test {

namespace {

struct Pictures {
  explicit Pictures(const std::vector<std::pair<int32_t, int32_t>>& grids) {
    for (const auto& [height, width] : grids) {
      auto& image = owned.emplace_back(std::make_unique<ImagePatches>());
      image->grid_height = height;
      image->grid_width = width;
      pointers.push_back(image.get());
    }
  }
  std::vector<std::unique_ptr<ImagePatches>> owned;
  std::vector<const ImagePatches*> pointers;
};

// A block of patches with what decides its place among the rows, most important first.
struct Block {
  int32_t image, window_row, window_col, row, col;
  int32_t packed;  // among all blocks, as they arrive
  auto order() const { return std::tuple(image, window_row, window_col, row, col); }
};

std::vector<Block> sorted_blocks(const Pictures& pictures, int32_t merge, int32_t window) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < pictures.pointers.size(); ++i) {
    const int32_t height = pictures.pointers[i]->grid_height / merge;
    const int32_t width = pictures.pointers[i]->grid_width / merge;
    for (int32_t row = 0; row < height; ++row) {
      for (int32_t col = 0; col < width; ++col) {
        blocks.push_back({static_cast<int32_t>(i), row / window, col / window, row, col,
                          static_cast<int32_t>(blocks.size())});
      }
    }
  }
  std::ranges::sort(blocks, {}, [](const Block& block) { return block.order(); });
  return blocks;
}

void check_layout(const std::vector<std::pair<int32_t, int32_t>>& grids, int32_t merge,
                  int32_t window) {
  const Pictures pictures(grids);
  const auto blocks = sorted_blocks(pictures, merge, window);
  const int32_t area = merge * merge;
  std::vector<int32_t> patch_of_row, rows, cols, window_starts = {0}, image_starts = {0};
  std::vector<int32_t> row_of_unit(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    row_of_unit[static_cast<size_t>(block.packed)] = static_cast<int32_t>(i);
    for (int32_t j = 0; j < area; ++j) {
      patch_of_row.push_back(block.packed * area + j);
      rows.push_back(block.row * merge + j / merge);
      cols.push_back(block.col * merge + j % merge);
    }
    const bool last = i + 1 == blocks.size();
    const auto end = static_cast<int32_t>(patch_of_row.size());
    const auto window_of = [](const Block& b) {
      return std::tuple(b.image, b.window_row, b.window_col);
    };
    if (last || window_of(blocks[i + 1]) != window_of(block)) window_starts.push_back(end);
    if (last || blocks[i + 1].image != block.image) image_starts.push_back(end);
  }
  rows.insert(rows.end(), cols.begin(), cols.end());

  QwenVisionLayout layout;
  layout.set(Pictures({{merge, merge}}).pointers, merge, window);  // leaves nothing behind
  layout.set(pictures.pointers, merge, window);
  BOOST_TEST(layout.patch_of_row == patch_of_row);
  BOOST_TEST(layout.positions == rows);
  BOOST_TEST(layout.row_of_unit == row_of_unit);
  BOOST_TEST(layout.window_starts == window_starts);
  BOOST_TEST(layout.image_starts == image_starts);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(qwen_vision_layout_tests)

BOOST_AUTO_TEST_CASE(windows_are_cut_off_at_the_edges_and_never_padded) {
  check_layout({{16, 16}}, 2, 4);  // four whole windows
  check_layout({{18, 22}}, 2, 4);  // ragged on both sides
  check_layout({{2, 2}}, 2, 4);    // smaller than a window
  check_layout({{2, 50}}, 2, 4);
  check_layout({{50, 2}}, 2, 4);
}

BOOST_AUTO_TEST_CASE(pictures_of_all_sizes_follow_each_other) {
  check_layout({{8, 10}, {2, 2}, {10, 8}, {34, 6}, {8, 10}}, 2, 2);
  check_layout({{4, 4}, {12, 20}}, 4, 1);
  check_layout({{9, 15}, {3, 3}, {27, 6}}, 3, 2);
  check_layout({{5, 7}, {1, 1}}, 1, 3);
}

BOOST_AUTO_TEST_CASE(known_order_of_a_ragged_picture) {
  // 3 x 3 blocks, windows of 2 x 2: [0 1 3 4] [2 5] [6 7] [8].
  const Pictures pictures({{6, 6}});
  QwenVisionLayout layout;
  layout.set(pictures.pointers, 2, 2);
  BOOST_TEST(layout.window_starts == (std::vector<int32_t>{0, 16, 24, 32, 36}));
  BOOST_TEST(layout.row_of_unit == (std::vector<int32_t>{0, 1, 4, 2, 3, 5, 6, 7, 8}));
  BOOST_TEST(layout.patch_of_row[8] == 12);  // block 3 begins in row 8
}

BOOST_AUTO_TEST_CASE(indices_reach_the_device_as_they_are) {
  const Pictures pictures({{8, 10}, {2, 2}, {2, 2}, {10, 2}});
  QwenVisionLayout layout;
  layout.set(pictures.pointers, 2, 1);  // as many windows as there can be
  const auto device = make_backend("cpu");
  auto indices = QwenVisionIndices::allocate(*device, layout.n_patches(), 2);
  BOOST_REQUIRE(indices.has_value());
  for (int repeat = 0; repeat < 2; ++repeat) {
    indices->upload(*device, layout);
    const auto check = [&](const std::vector<int32_t>& values, const int32_t* on_device) {
      std::vector<int32_t> back(values.size());
      device->download(on_device, back.data(), back.size() * sizeof(int32_t));
      BOOST_TEST(device->sync().has_value());
      BOOST_TEST(back == values);
    };
    check(layout.patch_of_row, indices->patch_of_row());
    check(layout.positions, indices->positions());
    check(layout.row_of_unit, indices->row_of_unit());
    check(layout.window_starts, indices->window_starts());
    check(layout.image_starts, indices->image_starts());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
