// The cut before the projector: features of a tower, projected elsewhere, are bit for bit the rows
// that the tower with its projector gives, and `auto` takes the fewest bytes.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "golden_cases.h"
#include "model/model.h"
#include "model/projector.h"
#include "support/results.h"

namespace hs::test {

namespace {

struct Loaded {
  Loaded(const char* name, DType dtype, CutChoice cut) {
    for (int index = 0; index < 2; ++index) {
      auto device = make_cpu_device({.index = index, .threads = 1});
      BOOST_REQUIRE(device.has_value());
      devices.push_back(std::move(*device));
    }
    auto result = load_model({.path = demo_model_dir(name),
                              .dtype = dtype,
                              .cut = cut,
                              .vision_devices = {devices[0].get()},
                              .language_devices = {devices[1].get()}});
    BOOST_REQUIRE_MESSAGE(result.has_value(), message_of(result));
    model = std::move(*result);
  }

  // What the tower gives for the pictures: (rows, tower_dim).
  std::vector<float> encode(const std::vector<std::shared_ptr<ImagePatches>>& pictures) {
    std::vector<const ImagePatches*> images;
    int64_t n_rows = 0;
    for (const auto& picture : pictures) {
      images.push_back(picture.get());
      n_rows += model.towers[0]->tokens_of(*picture);
    }
    const int32_t width = model.spec.tower_dim();
    std::vector<float> rows(static_cast<size_t>(n_rows * width));
    const Matrix out{rows.data(), DType::kF32, n_rows, width, width};
    BOOST_REQUIRE(model.towers[0]->encode(images, out).has_value());
    return rows;
  }

  std::vector<std::unique_ptr<Device>> devices;
  Model model;
};

// Two pictures of noise.
std::vector<std::shared_ptr<ImagePatches>> some_pictures(const PromptBuilder& prompts) {
  std::vector<std::shared_ptr<ImagePatches>> pictures;
  uint32_t state = 7;
  for (const int32_t width : {112, 168}) {
    Image noise{width, 112, std::vector<uint8_t>(static_cast<size_t>(width) * 112 * 3)};
    for (uint8_t& value : noise.rgb) {
      state = state * 1664525U + 1013904223U;
      value = static_cast<uint8_t>(state >> 24U);
    }
    auto patches = prompts.preprocess(noise, {});
    BOOST_REQUIRE_MESSAGE(patches.has_value(), message_of(patches));
    pictures.push_back(std::make_shared<ImagePatches>(std::move(*patches)));
  }
  return pictures;
}

constexpr const char* kNames[] = {"llava", "qwen2_5_vl"};
constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};

}  // namespace

BOOST_AUTO_TEST_SUITE(projector_tests)

BOOST_DATA_TEST_CASE(projected_features_are_bit_for_bit_the_towers_embeddings,
                     boost::unit_test::data::make({0, 1}) * boost::unit_test::data::make({0, 1}),
                     name, dtype) {
  Loaded post(kNames[name], kDTypes[dtype], CutChoice::kPost);
  Loaded pre(kNames[name], kDTypes[dtype], CutChoice::kPre);
  BOOST_TEST(post.model.projectors.empty());
  BOOST_REQUIRE_EQUAL(pre.model.projectors.size(), 1U);
  const ModelSpec& spec = pre.model.spec;
  BOOST_TEST(spec.tower_dim() == spec.feature_dim);
  const auto pictures = some_pictures(*post.model.prompts);
  const std::vector<float> wanted = post.encode(pictures);
  std::vector<float> features = pre.encode(pictures);

  // More rows than the projector takes at a time, so that parts of it end inside a picture.
  const std::vector<float> once = features;
  int64_t n_rows = 0;
  while ((n_rows = std::ssize(features) / spec.feature_dim) <= 2 * 512) {
    features.insert(features.end(), once.begin(), once.end());
  }
  std::vector<float> got(static_cast<size_t>(n_rows * spec.dim));
  BOOST_REQUIRE(
      pre.model.projectors[0]
          ->project({features.data(), DType::kF32, n_rows, spec.feature_dim, spec.feature_dim},
                    {got.data(), DType::kF32, n_rows, spec.dim, spec.dim})
          .has_value());
  BOOST_REQUIRE_EQUAL(got.size() % wanted.size(), 0U);
  for (size_t i = 0; i < got.size(); ++i) BOOST_REQUIRE_EQUAL(got[i], wanted[i % wanted.size()]);
}

BOOST_AUTO_TEST_CASE(weights_are_counted_where_they_stand) {
  const Loaded post("llava", DType::kF32, CutChoice::kPost);
  const Loaded pre("llava", DType::kF32, CutChoice::kPre);
  const size_t moved = post.model.spec.tower_bytes - pre.model.spec.tower_bytes;
  BOOST_TEST(moved >= size_t{4} * (128 * 192 + 192 * 192 + 2 * 192));
  BOOST_TEST(pre.model.spec.language_bytes == post.model.spec.language_bytes + moved);
  BOOST_TEST(pre.model.spec.step_weight_bytes == post.model.spec.step_weight_bytes);
}

BOOST_AUTO_TEST_CASE(auto_takes_the_fewest_bytes) {
  // LLaVA-1.5-7B; Qwen2.5-VL 7B, 32B and 72B.
  const auto before = [](int64_t feature_dim, int64_t out_dim,
                         CutChoice choice = CutChoice::kAuto) {
    return cuts_before_projector(choice, {.feature_dim = feature_dim, .out_dim = out_dim});
  };
  BOOST_TEST(before(1024, 4096));
  BOOST_TEST(!before(4 * 1280, 3584));
  BOOST_TEST(!before(4 * 1280, 5120));
  BOOST_TEST(before(4 * 1280, 8192));
  BOOST_TEST(!before(1024, 4096, CutChoice::kPost));
  BOOST_TEST(before(4 * 1280, 3584, CutChoice::kPre));
  BOOST_TEST(Loaded("llava", DType::kF32, CutChoice::kAuto).model.spec.cut_before_projector);
  BOOST_TEST(!Loaded("qwen2_5_vl", DType::kF32, CutChoice::kAuto).model.spec.cut_before_projector);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
