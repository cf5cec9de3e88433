// Sizes equal Hugging Face's smart_resize over 128,000 drawn ones, patches equal its Qwen2-VL
// processor bit for bit, and the content hash tells apart everything that the model sees
// differently.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <utility>

#include "media/patterns.h"
#include "media/qwen_preprocess.h"
#include "support/results.h"
#include "support/source_dir.h"

using namespace hs;
using namespace hs::test;

namespace {

nlohmann::json qwen_cases(const std::string& name) {
  std::ifstream in(source_dir() + "/tests/golden/qwen/" + name);
  return nlohmann::json::parse(in);
}

// `Draw`, `random_size` and `chain` of make_qwen_cases.py.
class Draw {
 public:
  explicit Draw(uint32_t seed) : state_(seed) {}
  int32_t up_to(int32_t n) {
    state_ = state_ * 1664525U + 1013904223U;
    return 1 + static_cast<int32_t>((state_ >> 8U) % static_cast<uint32_t>(n));
  }

 private:
  uint32_t state_;
};

QwenSize random_size(Draw& draw) {
  QwenSize size;
  size.width = draw.up_to(1 << draw.up_to(13));
  size.height = draw.up_to(1 << draw.up_to(13));
  const int32_t least = (std::max(size.width, size.height) + 199) / 200;
  return {std::max(size.width, least), std::max(size.height, least)};
}

void chain(uint64_t& value, int32_t number) {
  value = (value ^ static_cast<uint64_t>(number)) * 1099511628211U;
}

QwenProcessorConfig config_of(const nlohmann::json& c) {
  QwenProcessorConfig config;
  config.min_pixels = c.value("min_pixels", config.min_pixels);
  config.max_pixels = c.value("max_pixels", config.max_pixels);
  config.patch_size = c.value("patch_size", config.patch_size);
  config.merge_size = c.value("merge_size", config.merge_size);
  config.do_rescale = c.value("do_rescale", true);
  config.do_normalize = c.value("do_normalize", true);
  config.rescale_factor = c.value("rescale_factor", config.rescale_factor);
  for (size_t i = 0; i < 3; ++i) {
    if (c.contains("image_mean")) config.mean[i] = c["image_mean"][i];
    if (c.contains("image_std")) config.std[i] = c["image_std"][i];
  }
  return config;
}

QwenSize must_resize(int32_t width, int32_t height, const QwenProcessorConfig& config) {
  const auto size = qwen_smart_resize(width, height, config);
  BOOST_REQUIRE_MESSAGE(size.has_value(), message_of(size));
  return *size;
}

ImagePatches must_preprocess(const Image& image, const QwenProcessorConfig& config) {
  auto patches = qwen_preprocess(image, config);
  BOOST_REQUIRE_MESSAGE(patches.has_value(), message_of(patches));
  return std::move(*patches);
}

std::pair<uint64_t, uint64_t> hash_of(const Image& image, const QwenProcessorConfig& config) {
  const ImagePatches patches = must_preprocess(image, config);
  return {patches.content_hash[0], patches.content_hash[1]};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(qwen_preprocess_tests)

BOOST_AUTO_TEST_CASE(sizes_equal_the_reference) {
  const nlohmann::json cases = qwen_cases("resize.json");
  BOOST_REQUIRE_EQUAL(cases.size(), 32U);
  for (const auto& c : cases) {
    const QwenProcessorConfig config = config_of(c);
    BOOST_TEST_CONTEXT("patch " << config.patch_size << " merge " << config.merge_size << " min "
                                << config.min_pixels << " max " << config.max_pixels) {
      for (const auto& example : c["examples"]) {
        const QwenSize size = must_resize(example[0], example[1], config);
        BOOST_TEST_CONTEXT(example.dump()) {
          BOOST_TEST(size.width == example[2].get<int32_t>());
          BOOST_TEST(size.height == example[3].get<int32_t>());
        }
      }
      Draw draw(c["seed"]);
      uint64_t digest = 14695981039346656037U;
      for (int32_t i = 0; i < c["n"].get<int32_t>(); ++i) {
        const QwenSize drawn = random_size(draw);
        const QwenSize size = must_resize(drawn.width, drawn.height, config);
        chain(digest, size.width);
        chain(digest, size.height);
      }
      BOOST_TEST(std::to_string(digest) == c["digest"].get<std::string>());
    }
  }
}

BOOST_AUTO_TEST_CASE(tiny_pictures_grow_to_the_minimum) {
  const QwenProcessorConfig config;
  for (const int32_t side : {1, 14, 27, 28}) {
    const QwenSize size = must_resize(side, side, config);
    BOOST_TEST((size == QwenSize{56, 56}), side);
  }
  BOOST_TEST((must_resize(28, 2, config) == QwenSize{224, 28}));
}

BOOST_AUTO_TEST_CASE(no_picture_has_more_patches_than_the_bound) {
  constexpr uint32_t kSeed = 77;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  Draw draw(kSeed);
  for (const auto& c : qwen_cases("resize.json")) {
    QwenProcessorConfig config = config_of(c);
    config.min_pixels = std::min(config.min_pixels, config.max_pixels);
    const int64_t patches_max = qwen_patches_max(config);
    BOOST_TEST(patches_max % (config.merge_size * config.merge_size) == 0);
    int64_t most = 0;
    const auto see = [&](int32_t width, int32_t height) {
      const QwenSize size = must_resize(width, height, config);
      most = std::max(most,
                      int64_t{size.width / config.patch_size} * (size.height / config.patch_size));
    };
    for (int32_t i = 0; i < 2000; ++i) {
      const QwenSize size = random_size(draw);
      see(size.width, size.height);
      const int32_t side = draw.up_to(163);  // the most drawn-out pictures come nearest
      see(side, side * 200);
      see(side * 200, side);
    }
    BOOST_TEST(most <= patches_max);
    // Room for one row and column of blocks more than any picture takes, not for many.
    const auto blocks = static_cast<double>(patches_max) / (config.merge_size * config.merge_size);
    BOOST_TEST(static_cast<double>(most) / (config.merge_size * config.merge_size) >
               0.5 * blocks - 20);
  }
}

BOOST_AUTO_TEST_CASE(aspect_ratio_over_200_is_refused) {
  const QwenProcessorConfig config;
  for (const auto& [width, height] : {std::pair(201, 1), {1, 201}, {401, 2}, {32768, 163}}) {
    const auto size = qwen_smart_resize(width, height, config);
    BOOST_REQUIRE(!size.has_value());
    BOOST_TEST((size.error().kind == ErrorKind::kInvalidArgument));
    BOOST_TEST(size.error().code == "invalid_image");
  }
  const auto patches = qwen_preprocess(pattern("noise", 201, 1), config);
  BOOST_REQUIRE(!patches.has_value());
  BOOST_TEST(patches.error().message.find("201 x 1") != std::string::npos);
  for (const auto& [width, height] : {std::pair(200, 1), {1, 200}, {400, 2}, {32768, 164}})
    BOOST_TEST(qwen_smart_resize(width, height, config).has_value());
}

BOOST_AUTO_TEST_CASE(every_case_equals_the_processor) {
  const nlohmann::json cases = qwen_cases("patches.json");
  BOOST_REQUIRE_GT(cases.size(), 30U);
  for (const auto& c : cases) {
    BOOST_TEST_CONTEXT(c.dump()) {
      const QwenProcessorConfig config = config_of(c["options"]);
      const ImagePatches patches =
          must_preprocess(pattern(c["pattern"], c["from"][0], c["from"][1]), config);
      BOOST_TEST(patches.grid_height == c["grid"][0].get<int32_t>());
      BOOST_TEST(patches.grid_width == c["grid"][1].get<int32_t>());
      BOOST_TEST(patches.patch_dim == 3 * config.patch_size * config.patch_size);
      const size_t n = patches.data.size();
      BOOST_TEST_REQUIRE(
          n == static_cast<size_t>(patches.grid_height * patches.grid_width * patches.patch_dim));
      for (size_t i = 0; i < 9; ++i)
        BOOST_TEST(patches.data[(n - 1) * i / 8] == c["samples"][i].get<float>());
      BOOST_TEST(sha256(patches.data.data(), n * sizeof(float)) == c["sha256"].get<std::string>());
    }
  }
}

BOOST_AUTO_TEST_CASE(pictures_of_the_same_bytes_and_token_count_do_not_collide) {
  // The same bytes as a row of blocks and as a column: resizing changes nothing, so nothing but the
  // size tells them apart.
  QwenProcessorConfig config{.min_pixels = 28 * 28};
  const Image flat = pattern("noise", 140, 28);
  const Image tall{28, 140, flat.rgb};
  const ImagePatches a = must_preprocess(flat, config);
  const ImagePatches b = must_preprocess(tall, config);
  BOOST_TEST(a.grid_height * a.grid_width == b.grid_height * b.grid_width);
  BOOST_TEST((hash_of(flat, config) != hash_of(tall, config)));
  // One colour throughout: even the patches are equal, and only the grid differs.
  const Image wide_grey{150, 30, std::vector<uint8_t>(150 * 30 * 3, 90)};
  const Image tall_grey{30, 150, std::vector<uint8_t>(150 * 30 * 3, 90)};
  BOOST_TEST((must_preprocess(wide_grey, config).data == must_preprocess(tall_grey, config).data));
  BOOST_TEST((hash_of(wide_grey, config) != hash_of(tall_grey, config)));
}

BOOST_AUTO_TEST_CASE(every_change_of_what_the_model_sees_changes_the_hash) {
  const QwenProcessorConfig config;
  const Image image = pattern("checker", 84, 84);
  std::set<std::pair<uint64_t, uint64_t>> hashes{hash_of(image, config)};
  Image changed = image;
  changed.rgb[1000] ^= 1;
  hashes.insert(hash_of(changed, config));
  const auto with = [&](auto change) {
    QwenProcessorConfig other = config;
    change(other);
    hashes.insert(hash_of(image, other));
  };
  with([](auto& c) { c.min_pixels = 112 * 112; });
  with([](auto& c) { c.max_pixels = 56 * 56; });
  with([](auto& c) { c.patch_size = 7; });
  with([](auto& c) { c.merge_size = 1; });
  with([](auto& c) { c.mean[2] = 0.5F; });
  with([](auto& c) { c.std[0] = 0.5F; });
  with([](auto& c) { c.do_normalize = false; });
  with([](auto& c) { c.rescale_factor = 1.0 / 128; });
  BOOST_TEST(hashes.size() == 10U);
  BOOST_TEST((hash_of(image, config) == hash_of(pattern("checker", 84, 84), config)));
}

BOOST_AUTO_TEST_CASE(hash_differs_from_that_of_another_preprocessor) {
  const Image image = pattern("noise", 56, 56);
  const ImagePatches clip =
      clip_preprocess(image, {.shortest_edge = 56, .crop_width = 56, .crop_height = 56});
  const ImagePatches qwen = must_preprocess(image, {});
  BOOST_TEST(clip.content_hash[0] != qwen.content_hash[0]);
}

BOOST_AUTO_TEST_SUITE_END()
