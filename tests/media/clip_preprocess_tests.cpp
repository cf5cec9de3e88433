// Patches equal Hugging Face's CLIP processor bit for bit over sizes and settings; the content hash
// follows them exactly.
#include <boost/test/unit_test.hpp>
#include <set>
#include <utility>

#include "media/image.h"
#include "media/patterns.h"

using namespace hs;
using namespace hs::test;

namespace {

ClipProcessorConfig config_of(const nlohmann::json& c) {
  ClipProcessorConfig config;
  config.patch_size = c["patch_size"];
  config.shortest_edge = c["size"]["shortest_edge"];
  config.crop_width = c["crop_size"]["width"];
  config.crop_height = c["crop_size"]["height"];
  config.do_resize = c.value("do_resize", true);
  config.do_center_crop = c.value("do_center_crop", true);
  config.do_rescale = c.value("do_rescale", true);
  config.do_normalize = c.value("do_normalize", true);
  config.rescale_factor = c.value("rescale_factor", 1.0 / 255.0);
  for (size_t i = 0; i < 3; ++i) {
    if (c.contains("image_mean")) config.mean[i] = c["image_mean"][i];
    if (c.contains("image_std")) config.std[i] = c["image_std"][i];
  }
  return config;
}

Image source_of(const nlohmann::json& c) {
  if (c.contains("pattern")) return pattern(c["pattern"], c["from"][0], c["from"][1]);
  const auto image = decode_image(read_file(kGolden + "files/" + c["file"].get<std::string>()), {});
  BOOST_REQUIRE(image.has_value());
  return *image;
}

std::pair<uint64_t, uint64_t> hash_of(const Image& image, const ClipProcessorConfig& config) {
  const ImagePatches patches = clip_preprocess(image, config);
  return {patches.content_hash[0], patches.content_hash[1]};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(clip_preprocess_tests)

BOOST_AUTO_TEST_CASE(every_case_equals_the_processor) {
  const nlohmann::json cases = golden_cases()["clip"];
  BOOST_REQUIRE_GT(cases.size(), 25U);
  for (const auto& c : cases) {
    BOOST_TEST_CONTEXT(c.dump()) {
      const ImagePatches patches = clip_preprocess(source_of(c), config_of(c));
      BOOST_TEST(patches.grid_height == c["grid"][0].get<int32_t>());
      BOOST_TEST(patches.grid_width == c["grid"][1].get<int32_t>());
      const size_t n = patches.data.size();
      BOOST_TEST_REQUIRE(
          n == static_cast<size_t>(patches.grid_height * patches.grid_width * patches.patch_dim));
      for (size_t i = 0; i < 9; ++i)
        BOOST_TEST(patches.data[(n - 1) * i / 8] == c["samples"][i].get<float>());
      BOOST_TEST(sha256(patches.data.data(), n * sizeof(float)) == c["sha256"].get<std::string>());
    }
  }
}

BOOST_AUTO_TEST_CASE(equal_pixels_have_equal_hashes) {
  const ClipProcessorConfig config;
  const Image image = pattern("noise", 40, 30);
  BOOST_TEST((hash_of(image, config) == hash_of(pattern("noise", 40, 30), config)));
}

BOOST_AUTO_TEST_CASE(every_change_of_what_the_model_sees_changes_the_hash) {
  ClipProcessorConfig config{.shortest_edge = 28, .crop_width = 28, .crop_height = 28};
  const Image image = pattern("checker", 28, 28);
  std::set<std::pair<uint64_t, uint64_t>> hashes{hash_of(image, config)};
  Image changed = image;
  changed.rgb[1000] ^= 1;
  hashes.insert(hash_of(changed, config));
  const auto with = [&](auto change) {
    ClipProcessorConfig other = config;
    change(other);
    hashes.insert(hash_of(image, other));
  };
  with([](auto& c) { c.crop_width = 14; });
  with([](auto& c) { c.crop_height = 14; });
  with([](auto& c) { c.shortest_edge = 56; });
  with([](auto& c) { c.patch_size = 7; });
  with([](auto& c) { c.mean[2] = 0.5F; });
  with([](auto& c) { c.std[0] = 0.5F; });
  with([](auto& c) { c.do_normalize = false; });
  with([](auto& c) { c.rescale_factor = 1.0 / 128; });
  BOOST_TEST(hashes.size() == 10U);
}

BOOST_AUTO_TEST_CASE(hash_does_not_see_what_the_model_does_not_see) {
  const ClipProcessorConfig config{.shortest_edge = 28, .crop_width = 28, .crop_height = 28};
  Image image = pattern("noise", 48, 28);  // ten columns on each side are cropped away
  const auto before = hash_of(image, config);
  image.rgb[0] ^= 255;
  BOOST_TEST((hash_of(image, config) == before));
  image.rgb[24 * 3] ^= 255;
  BOOST_TEST((hash_of(image, config) != before));
}

BOOST_AUTO_TEST_CASE(extreme_aspect_ratios_cost_no_more_than_the_crop) {
  for (const auto& [width, height] : {std::pair{1, 32768}, {32768, 1}}) {
    const ImagePatches patches = clip_preprocess(pattern("noise", width, height), {});
    BOOST_TEST(patches.grid_height * patches.grid_width == 576);
  }
}

BOOST_AUTO_TEST_SUITE_END()
