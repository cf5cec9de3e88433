// Qwen2.5-VL's vision tower: pictures of different sizes packed in one call give bit for bit what
// each gives alone, the CPU device agrees with plain loops, windows and full attention change the
// result, and wrong settings are refused by name.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "checkpoint_files.h"
#include "golden_cases.h"
#include "model/checkpoint.h"
#include "model/family.h"
#include "model/qwen_vision.h"
#include "support/backends.h"
#include "support/results.h"
#include "support/temp_dir.h"

namespace hs::test {

namespace {

std::string canonical_name(std::string_view stored) {
  return std::string(strip_language_prefixes(stored));
}

// The demo's tower with settings changed that no weight's shape depends on.
struct Tower {
  explicit Tower(std::string_view backend, int64_t max_patches, const nlohmann::json& changes = {},
                 DType dtype = DType::kF32)
      : device(make_backend(backend)) {
    auto json = read_json_file(demo_model_dir("qwen2_5_vl") / "config.json");
    BOOST_REQUIRE(json.has_value());
    nlohmann::json vision = (*json)["vision_config"];
    if (!changes.is_null()) vision.merge_patch(changes);
    std::optional<Error> error;
    FieldReader reader("config.json", vision, error);
    config = read_qwen_vision_config(reader);
    BOOST_REQUIRE_MESSAGE(!error, (error ? error->message : ""));
    auto checkpoint = Checkpoint::open(demo_model_dir("qwen2_5_vl"), canonical_name);
    BOOST_REQUIRE_MESSAGE(checkpoint.has_value(), message_of(checkpoint));
    WeightLoader weights(*checkpoint, *device, dtype);
    auto loaded = QwenVision::load(weights, *device, config, max_patches);
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), message_of(loaded));
    vision_model = std::move(*loaded);
  }

  std::vector<float> encode(const std::vector<std::shared_ptr<ImagePatches>>& pictures) {
    std::vector<const ImagePatches*> images;
    int64_t rows = 0;
    for (const auto& picture : pictures) {
      images.push_back(picture.get());
      rows += vision_model->tokens_of(*picture);
    }
    std::vector<float> values(static_cast<size_t>(rows * config.out_dim));
    auto buffer = device->allocate(values.size() * sizeof(float));
    BOOST_REQUIRE(buffer.has_value());
    const Matrix out{buffer->data(), DType::kF32, rows, config.out_dim, config.out_dim};
    BOOST_REQUIRE(vision_model->encode(images, out).has_value());
    device->download(buffer->data(), values.data(), values.size() * sizeof(float));
    BOOST_REQUIRE(device->sync().has_value());
    return values;
  }

  std::unique_ptr<Device> device;
  QwenVisionConfig config;
  std::unique_ptr<QwenVision> vision_model;
};

std::shared_ptr<ImagePatches> some_picture(int32_t height, int32_t width, int32_t seed) {
  auto patches = std::make_shared<ImagePatches>();
  patches->grid_height = height;
  patches->grid_width = width;
  patches->patch_dim = 588;
  patches->data.resize(static_cast<size_t>(height * width * 588));
  for (size_t i = 0; i < patches->data.size(); ++i) {
    const auto x =
        static_cast<double>(i % 7919) * (0.11 + 0.013 * seed) + static_cast<double>(i / 588);
    patches->data[i] = static_cast<float>(1.5 * std::sin(x));
  }
  return patches;
}

std::vector<std::shared_ptr<ImagePatches>> some_pictures() {
  return {some_picture(10, 6, 1), some_picture(2, 2, 2),  some_picture(8, 8, 3),
          some_picture(2, 30, 4), some_picture(14, 2, 5), some_picture(10, 6, 6)};
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return most;
}

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};

}  // namespace

BOOST_AUTO_TEST_SUITE(qwen_vision_tests)

BOOST_DATA_TEST_CASE(packed_pictures_are_bit_for_bit_those_encoded_alone,
                     boost::unit_test::data::make({0, 1}), which) {
  Tower tower("cpu", 512, {}, kDTypes[which]);
  const auto pictures = some_pictures();
  std::vector<float> alone;
  for (const auto& picture : pictures) {
    const auto rows = tower.encode({picture});
    alone.insert(alone.end(), rows.begin(), rows.end());
  }
  BOOST_TEST(tower.encode(pictures) == alone);
  BOOST_TEST(tower.encode(pictures) == alone);  // whatever the work area held before
}

BOOST_AUTO_TEST_CASE(rows_of_the_mlp_in_pieces_change_no_bit) {
  // 34 x 34 patches are more than the MLP takes at one time; two of 2 x 34 stay below.
  Tower tower("cpu", 1300);
  const auto large = some_picture(34, 34, 1);
  const auto small = some_picture(2, 34, 2);
  const auto large_rows = tower.encode({large});
  const auto small_rows = tower.encode({small});
  auto expected = large_rows;
  expected.insert(expected.end(), small_rows.begin(), small_rows.end());
  BOOST_TEST(tower.encode({large, small}) == expected);
}

BOOST_AUTO_TEST_CASE(cpu_device_agrees_with_plain_loops) {
  const nlohmann::json changes[] = {
      nlohmann::json::object(),
      {{"window_size", 28}, {"fullatt_block_indexes", nlohmann::json::array()}},
      {{"window_size", 112}, {"fullatt_block_indexes", {0}}, {"num_heads", 2}},
      {{"num_heads", 8}, {"fullatt_block_indexes", {0, 1, 2, 3, 99}}},
  };
  for (const auto& change : changes) {
    Tower cpu("cpu", 512, change);
    Tower reference("reference", 512, change);
    const auto a = cpu.encode(some_pictures());
    const auto b = reference.encode(some_pictures());
    BOOST_TEST(largest_difference(a, b) < 2e-4, change.dump());
  }
}

BOOST_AUTO_TEST_CASE(windows_and_full_attention_are_told_apart) {
  const auto picture = some_picture(12, 12, 1);
  const auto result = [&](const nlohmann::json& changes) {
    Tower tower("cpu", 144, changes);
    return tower.encode({picture});
  };
  const auto none = nlohmann::json::array();
  const auto windows = result({{"fullatt_block_indexes", none}});
  BOOST_TEST(largest_difference(windows, result({{"fullatt_block_indexes", {2}}})) > 1e-2);
  BOOST_TEST(largest_difference(
                 windows, result({{"fullatt_block_indexes", none}, {"window_size", 84}})) > 1e-2);
  // A window as large as the picture is the whole picture.
  BOOST_TEST(largest_difference(result({{"fullatt_block_indexes", none}, {"window_size", 168}}),
                                result({{"fullatt_block_indexes", {0, 1, 2, 3}}})) < 1e-4);
}

BOOST_AUTO_TEST_CASE(one_block_is_the_smallest_picture) {
  Tower tower("cpu", 4);
  BOOST_TEST(tower.vision_model->tokens_of(*some_picture(2, 2, 1)) == 1);
  BOOST_TEST(tower.encode({some_picture(2, 2, 1)}).size() == 192U);
}

namespace {

struct BadSetting {
  const char* change;  // a JSON merge patch of vision_config
  const char* message;
};
std::ostream& operator<<(std::ostream& out, const BadSetting& bad) {
  return out << bad.change;
}

const BadSetting kBadSettings[] = {
    {R"({"window_size": 70})", "config.json: window_size is 70, which is no multiple of 28"},
    {R"({"window_size": 0})", "config.json: window_size must be a whole number"},
    {R"({"num_heads": 5})", "config.json: num_heads is 5, which does not divide hidden_size 128"},
    {R"({"num_heads": 64})", "config.json: num_heads makes heads of 2; they must be a multiple"},
    {R"({"hidden_size": 1024, "num_heads": 2})", "config.json: num_heads makes heads of 512"},
    {R"({"depth": null})", "config.json: depth is missing"},
    {R"({"hidden_size": "wide"})", "config.json: hidden_size must be a whole number"},
    {R"({"in_chans": 1})", "config.json: in_chans must be 3"},
    {R"({"in_channels": 4})", "config.json: in_channels must be 3"},
    {R"({"hidden_act": "quick_gelu"})", "config.json: hidden_act \"quick_gelu\" is not supported"},
    {R"({"model_type": "siglip"})", "config.json: model_type \"siglip\" is not supported"},
    {R"({"fullatt_block_indexes": "all"})", "config.json: fullatt_block_indexes must hold whole"},
    {R"({"fullatt_block_indexes": [-1]})", "config.json: fullatt_block_indexes must hold whole"},
    {R"({"spatial_merge_size": 0})", "config.json: spatial_merge_size must be a whole number"},
    {R"({"rope_parameters": {"rope_type": "yarn"}})",
     "config.json: rope_parameters.rope_type \"yarn\" is not supported"},
};

}  // namespace

BOOST_DATA_TEST_CASE(wrong_setting_is_refused_by_name, boost::unit_test::data::make(kBadSettings),
                     bad) {
  auto json = read_json_file(demo_model_dir("qwen2_5_vl") / "config.json");
  BOOST_REQUIRE(json.has_value());
  nlohmann::json vision = (*json)["vision_config"];
  vision.merge_patch(nlohmann::json::parse(bad.change));
  std::optional<Error> error;
  FieldReader reader("config.json", vision, error);
  read_qwen_vision_config(reader);
  BOOST_REQUIRE(error.has_value());
  BOOST_TEST(error->message.starts_with(bad.message), error->message);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
