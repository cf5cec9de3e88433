#include "golden_compare.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "base/check.h"
#include "step_runner.h"

namespace hs::test {

namespace {

double max_difference(std::span<const float> a, std::span<const float> b) {
  HS_CHECK_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    most = std::isnan(difference) ? INFINITY : std::max(most, difference);
  }
  return most;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

// Patch rows (channel, patch row, patch column) back to (channel, row, column), appended to pixels.
void append_pixels(const ImagePatches& patches, std::vector<float>& pixels) {
  const auto patch = static_cast<int32_t>(std::lround(std::sqrt(patches.patch_dim / 3)));
  for (int32_t c = 0; c < 3; ++c) {
    for (int32_t y = 0; y < patches.grid_height * patch; ++y) {
      for (int32_t x = 0; x < patches.grid_width * patch; ++x) {
        const int32_t row = y / patch * patches.grid_width + x / patch;
        const int32_t col = (c * patch + y % patch) * patch + x % patch;
        pixels.push_back(patches.data[static_cast<size_t>(row * patches.patch_dim + col)]);
      }
    }
  }
}

// Rows of one frame's patches, (channel, row, column), as rows of several equal frames, (channel,
// frame, row, column).
void append_frames(const ImagePatches& patches, int64_t row_size, std::vector<float>& rows) {
  const int64_t n_frames = row_size / patches.patch_dim;
  const int64_t area = patches.patch_dim / 3;
  for (auto at = patches.data.begin(); at != patches.data.end(); at += area) {
    for (int64_t frame = 0; frame < n_frames; ++frame) rows.insert(rows.end(), at, at + area);
  }
}

// HF's picture may have a margin that no patch covers; the patches' part of it, in the same order.
std::vector<float> covered(const GoldenCase& golden, const Prompt& prompt) {
  const size_t n = prompt.images.size();
  const auto side = static_cast<size_t>(golden.pixel_shape.back());
  const auto& first = *prompt.images[0];
  const auto patch = static_cast<size_t>(std::lround(std::sqrt(first.patch_dim / 3)));
  const size_t height = static_cast<size_t>(first.grid_height) * patch;
  const size_t width = static_cast<size_t>(first.grid_width) * patch;
  std::vector<float> result;
  for (size_t plane = 0; plane < 3 * n; ++plane) {
    for (size_t y = 0; y < height; ++y) {
      const auto row =
          golden.pixel_values.begin() + static_cast<std::ptrdiff_t>((plane * side + y) * side);
      result.insert(result.end(), row, row + static_cast<std::ptrdiff_t>(width));
    }
  }
  return result;
}

double pixel_difference(const GoldenCase& golden, const Prompt& prompt) {
  if (golden.pixel_values.empty()) return 0;
  const bool are_rows = golden.pixel_shape.size() == 2;
  std::vector<float> pixels;
  for (const auto& image : prompt.images) {
    if (are_rows) {
      append_frames(*image, golden.pixel_shape[1], pixels);
    } else {
      append_pixels(*image, pixels);
    }
  }
  const auto expected = are_rows ? golden.pixel_values : covered(golden, prompt);
  return pixels.size() == expected.size() ? max_difference(pixels, expected) : INFINITY;
}

double smallest_cosine(std::span<const float> rows, std::span<const float> expected, size_t dim) {
  HS_CHECK_EQ(rows.size(), expected.size());
  double worst = 1;
  for (size_t at = 0; at < rows.size(); at += dim) {
    worst = std::min(worst, cosine(rows.subspan(at, dim), expected.subspan(at, dim)));
  }
  return worst;
}

}  // namespace

Prompt make_prompt(const Model& model, const GoldenCase& golden) {
  std::vector<std::shared_ptr<const ImagePatches>> images;
  for (const auto& file : golden.image_files) {
    const auto image = decode_image(read_file(file), {});
    HS_CHECK(image.has_value());
    auto patches = model.prompts->preprocess(*image, {});
    HS_CHECK(patches.has_value());
    images.push_back(std::make_shared<ImagePatches>(std::move(*patches)));
  }
  auto prompt = model.prompts->chat(golden.chat, std::move(images));
  if (!prompt) check_failed(__FILE__, __LINE__, prompt.error().message);
  return std::move(*prompt);
}

bool same_greedy(const GoldenCase& golden, const std::vector<int32_t>& tokens) {
  if (tokens.size() != golden.greedy.size()) return false;
  const auto unclear = std::ranges::find_if(
      golden.greedy_leads, [](double lead) { return lead < 2 * kLogitsTolerance; });
  const auto n = unclear - golden.greedy_leads.begin();
  return std::equal(tokens.begin(), tokens.begin() + n, golden.greedy.begin());
}

Comparison compare(Model& model, Device& device, const GoldenCase& golden) {
  Comparison result;
  const Prompt prompt = make_prompt(model, golden);
  result.ids_equal = prompt.token_ids == golden.input_ids;
  if (!result.ids_equal) return result;  // nothing below can be right
  result.positions_equal = golden.position_ids.empty() || prompt.positions == golden.position_ids;

  if (!prompt.images.empty()) {
    std::vector<const ImagePatches*> images;
    for (const auto& image : prompt.images) images.push_back(image.get());
    result.pixel_difference = pixel_difference(golden, prompt);
    result.image_cosine = smallest_cosine(encode_images(model, device, images), golden.image_embeds,
                                          static_cast<size_t>(model.spec.dim));
  }
  const auto n = std::ssize(prompt.token_ids);
  const auto block_size = model.spec.kv_layout.block_size;
  const int64_t n_blocks = 2 * (n + std::ssize(golden.greedy)) / block_size + 4;
  StepRunner runner(model, device, n_blocks);
  auto sequence = runner.start(prompt);
  result.logits_difference = max_difference(runner.logits({{&sequence, n}}), golden.logits);
  auto again = runner.start(prompt);
  runner.generate(again, std::ssize(golden.greedy), n);
  result.greedy = again.output();
  return result;
}

}  // namespace hs::test
