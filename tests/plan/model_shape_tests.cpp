// Any Hugging Face config gives a shape or one clear line that names the field at fault; configs of
// the shipped models give the shipped shapes.
#include <boost/test/unit_test.hpp>
#include <string>

#include "plan/model_shape.h"
#include "plan/shipped_data.h"
#include "support/source_dir.h"

namespace hs::test {
namespace {

// As published for LLaVA-1.5-7B: what Llama has as a default is left out.
constexpr const char* kLlava = R"({
  "model_type": "llava", "vision_feature_layer": -2, "image_seq_length": 576,
  "text_config": {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064},
  "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336,
    "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24,
    "patch_size": 14}})";

constexpr const char* kQwen = R"({
  "model_type": "qwen2_5_vl", "hidden_size": 3584, "num_hidden_layers": 28,
  "intermediate_size": 18944, "num_attention_heads": 28, "num_key_value_heads": 4,
  "vocab_size": 152064, "max_position_embeddings": 128000, "tie_word_embeddings": false,
  "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
    "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31], "out_hidden_size": 3584}})";

constexpr const char* kInternVl = R"({
  "model_type": "internvl_chat", "downsample_ratio": 0.5,
  "llm_config": {"model_type": "internlm2", "hidden_size": 4096, "num_hidden_layers": 32,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 92553},
  "vision_config": {"model_type": "intern_vit_6b", "hidden_size": 1024, "image_size": 448,
    "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 14}})";

ModelShape read(const std::string& json) {
  const auto shape = read_model_config(json, "config.json");
  BOOST_REQUIRE_MESSAGE(shape.has_value(), shape.error().message);
  return *shape;
}

void expect_same(const ModelShape& read_one, const std::string& shipped_name) {
  const auto shapes = read_model_shapes(shipped_models_toml(), "models.toml").value();
  for (const ModelShape& shape : shapes) {
    if (shape.name != shipped_name) continue;
    BOOST_TEST(read_one.language.parameters() == shape.language.parameters());
    BOOST_TEST(read_one.kv_token_bytes(2) == shape.kv_token_bytes(2));
    BOOST_TEST(read_one.vision_parameters() == shape.vision_parameters());
    BOOST_TEST(read_one.encode_flops(576) == shape.encode_flops(576));
    BOOST_TEST(read_one.vision.pre_dim() == shape.vision.pre_dim());
    BOOST_TEST(read_one.image_rows({777, 555}).value() == shape.image_rows({777, 555}).value());
    return;
  }
  BOOST_FAIL("no shape " << shipped_name);
}

std::string refusal(const std::string& json) {
  const auto shape = read_model_config(json, "config.json");
  BOOST_REQUIRE(!shape.has_value());
  return shape.error().message;
}

std::string with(std::string json, const std::string& from, const std::string& to) {
  const size_t at = json.find(from);
  BOOST_REQUIRE(at != std::string::npos);
  return json.replace(at, from.size(), to);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_shape_tests)

BOOST_AUTO_TEST_CASE(published_configs_give_the_shipped_shapes) {
  expect_same(read(kLlava), "llava-1.5-7b");
  expect_same(read(kQwen), "qwen2.5-vl-7b");
}

BOOST_AUTO_TEST_CASE(a_tower_that_shuffles_pixels_gives_a_quarter_of_the_rows) {
  const ModelShape shape = read(kInternVl);
  BOOST_TEST(shape.image_rows({100, 100}).value() == 256);
  BOOST_TEST(shape.kv_token_bytes(2) == 128 * 1024);
  BOOST_TEST(shape.vision.pre_dim() == 4096);
}

BOOST_AUTO_TEST_CASE(demo_models_of_the_repository_can_be_read) {
  for (const char* name : {"llava", "qwen2_5_vl"}) {
    const auto shape =
        read_model_config(std::filesystem::path(source_dir()) / "models/demo" / name);
    BOOST_REQUIRE_MESSAGE(shape.has_value(), shape.error().message);
    BOOST_TEST(shape->language.dim == 192);
  }
}

BOOST_AUTO_TEST_CASE(a_config_without_a_vision_part_is_refused_by_that_name) {
  const std::string text = refusal(R"({"model_type": "llama", "hidden_size": 4096})");
  BOOST_TEST(text == "config.json: vision_config is missing: the model has no vision part");
}

BOOST_AUTO_TEST_CASE(bad_fields_are_named) {
  const auto names = [](const std::string& text, const std::string& field) {
    BOOST_TEST(text.find(field) != std::string::npos, text);
    BOOST_TEST(text.find('\n') == std::string::npos, text);
  };
  names(refusal(with(kQwen, "\"hidden_size\": 3584", "\"hidden_size\": -1")), "hidden_size");
  names(refusal(with(kQwen, "\"hidden_size\": 3584,", "")), "hidden_size");
  names(refusal(with(kQwen, "\"out_hidden_size\": 3584", "\"out_hidden_size\": 7")),
        "vision_config.out_hidden_size");
  names(refusal(with(kQwen, "\"patch_size\": 14", "\"patch_size\": \"x\"")),
        "vision_config.patch_size");
  names(refusal(with(kLlava, "-2", "-99")), "vision_feature_layer");
  names(refusal("[]"), "config.json");
  names(refusal("{"), "config.json");
  names(refusal(R"({"vision_config": 3})"), "vision_config");
}

BOOST_AUTO_TEST_CASE(a_path_without_a_config_is_refused) {
  BOOST_TEST(!read_model_config(std::filesystem::path("no/such/folder")).has_value());
}

BOOST_AUTO_TEST_CASE(shipped_shapes_name_their_source) {
  const auto shapes = read_model_shapes(shipped_models_toml(), "models.toml");
  BOOST_REQUIRE(shapes.has_value());
  BOOST_TEST(shapes->size() == 6U);
  for (const ModelShape& shape : *shapes) {
    BOOST_TEST(shape.source.starts_with("https://"), shape.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
