#include "cuda/tiny_checkpoint.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "model/checkpoint_files.h"

namespace hs::test {
namespace {

constexpr int32_t kImageToken = 1000;  // the demo's
constexpr int64_t kDim = 32;
constexpr int64_t kInner = 48;
constexpr int64_t kVocab = 1024;
constexpr int64_t kPixels = 28;
constexpr int64_t kPatch = 14;

// Tensors by name; every value is drawn in order from one seed.
class Tensors {
 public:
  void matrix(const std::string& name, std::vector<int64_t> shape) {
    int64_t in = 1;
    for (size_t i = 1; i < shape.size(); ++i) in *= shape[i];
    add(name, std::move(shape), 0, 1 / std::sqrt(static_cast<float>(in)));
  }
  void norm(const std::string& name, bool bias) {
    add(name + ".weight", {kDim}, 1, 0.1F);
    if (bias) add(name + ".bias", {kDim}, 0, 0.1F);
  }
  void linear(const std::string& name, int64_t out, int64_t in, bool bias) {
    matrix(name + ".weight", {out, in});
    if (bias) add(name + ".bias", {out}, 0, 0.1F);
  }
  void add(const std::string& name, std::vector<int64_t> shape, float mean, float spread) {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    std::normal_distribution<float> draw(mean, spread);
    StoredTensor tensor{name, "F32", std::move(shape),
                        std::string(static_cast<size_t>(n) * sizeof(float), '\0')};
    for (int64_t i = 0; i < n; ++i) {
      const float value = draw(random_);
      std::memcpy(tensor.bytes.data() + static_cast<size_t>(i) * sizeof value, &value,
                  sizeof value);
    }
    all.push_back(std::move(tensor));
  }

  std::vector<StoredTensor> all;

 private:
  std::mt19937 random_{20261130};
};

void add_tower(Tensors& tensors) {
  const std::string tower = "vision_tower.vision_model.";
  tensors.add(tower + "embeddings.class_embedding", {kDim}, 0, 0.5F);
  tensors.matrix(tower + "embeddings.patch_embedding.weight", {kDim, 3, kPatch, kPatch});
  constexpr int64_t kSide = kPixels / kPatch;
  tensors.add(tower + "embeddings.position_embedding.weight", {kSide * kSide + 1, kDim}, 0, 0.5F);
  tensors.norm(tower + "pre_layrnorm", true);
  for (int i = 0; i < 2; ++i) {
    const std::string layer = tower + "encoder.layers." + std::to_string(i) + ".";
    for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      tensors.linear(layer + "self_attn." + name, kDim, kDim, true);
    }
    tensors.norm(layer + "layer_norm1", true);
    tensors.norm(layer + "layer_norm2", true);
    tensors.linear(layer + "mlp.fc1", kInner, kDim, true);
    tensors.linear(layer + "mlp.fc2", kDim, kInner, true);
  }
  tensors.norm(tower + "post_layernorm", true);
  tensors.linear("multi_modal_projector.linear_1", kDim, kDim, true);
  tensors.linear("multi_modal_projector.linear_2", kDim, kDim, true);
}

void add_language(Tensors& tensors) {
  const std::string language = "language_model.model.";
  tensors.add(language + "embed_tokens.weight", {kVocab, kDim}, 0, 1);
  for (int i = 0; i < 2; ++i) {
    const std::string layer = language + "layers." + std::to_string(i) + ".";
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      tensors.linear(layer + "self_attn." + name, kDim, kDim, false);
    }
    tensors.norm(layer + "input_layernorm", false);
    tensors.norm(layer + "post_attention_layernorm", false);
    tensors.linear(layer + "mlp.gate_proj", kInner, kDim, false);
    tensors.linear(layer + "mlp.up_proj", kInner, kDim, false);
    tensors.linear(layer + "mlp.down_proj", kDim, kInner, false);
  }
  tensors.norm(language + "norm", false);
  tensors.linear("language_model.lm_head", kVocab, kDim, false);
}

}  // namespace

void write_tiny_llava(const std::filesystem::path& dir) {
  copy_demo_checkpoint(dir);
  edit_json(dir / "config.json", [](nlohmann::json& config) {
    config["image_seq_length"] = kTinyPictureRows;
    nlohmann::json& text = config["text_config"];
    text["hidden_size"] = kDim;
    text["intermediate_size"] = kInner;
    text["num_hidden_layers"] = 2;
    text["num_attention_heads"] = 2;
    text["num_key_value_heads"] = 2;
    nlohmann::json& vision = config["vision_config"];
    vision["hidden_size"] = kDim;
    vision["intermediate_size"] = kInner;
    vision["num_hidden_layers"] = 2;
    vision["num_attention_heads"] = 2;
    vision["image_size"] = kPixels;
    vision["patch_size"] = kPatch;
    vision["projection_dim"] = kDim;
  });
  edit_json(dir / "preprocessor_config.json", [](nlohmann::json& config) {
    config["crop_size"] = {{"height", kPixels}, {"width", kPixels}};
    config["size"] = {{"shortest_edge", kPixels}};
  });
  Tensors tensors;
  add_tower(tensors);
  add_language(tensors);
  write_tensors(dir / "model.safetensors", tensors.all);
}

Prompt tiny_prompt(const Model& model, int32_t n_text, int32_t seed, bool picture) {
  BOOST_REQUIRE(n_text >= 3);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < n_text; ++i) ids.push_back(3 + (131 * i + 37 * seed + i * i) % 900);
  constexpr int32_t kBefore = 2;
  if (picture) ids.insert(ids.begin() + kBefore, kTinyPictureRows, kImageToken);
  Prompt prompt = model.prompts->from_tokens(std::move(ids));
  if (!picture) return prompt;
  constexpr auto kSide = static_cast<int32_t>(kPixels);
  Image image{.width = kSide, .height = kSide, .rgb = {}};
  std::mt19937 random(static_cast<uint32_t>(seed));
  image.rgb.resize(size_t{3} * kPixels * kPixels);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random());
  auto patches = model.prompts->preprocess(image, {});
  BOOST_REQUIRE(patches);
  prompt.spans = {{.first = kBefore, .count = kTinyPictureRows}};
  prompt.images = {std::make_shared<ImagePatches>(std::move(*patches))};
  return prompt;
}

}  // namespace hs::test
