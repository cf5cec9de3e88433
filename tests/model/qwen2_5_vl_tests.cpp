// A Qwen2.5-VL checkpoint loads in every form it is published in and then computes exactly the
// same, prompts with pictures may be cut anywhere, the work area bounds the pictures, and a
// checkpoint that is incomplete or contradicts itself is refused with a line that names file and
// field.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "checkpoint_files.h"
#include "golden_cases.h"
#include "model/model.h"
#include "step_runner.h"
#include "support/backends.h"
#include "support/results.h"
#include "support/temp_dir.h"

namespace hs::test {

namespace {

struct QwenCopy {
  QwenCopy() { copy_demo_checkpoint(dir.path(), "qwen2_5_vl"); }

  Result<Model> load(int32_t max_encode_patches = 1024) {
    return load_model({.path = dir.path(),
                       .dtype = DType::kF32,
                       .block_size = 8,
                       .max_step_tokens = 256,
                       .max_encode_patches = max_encode_patches,
                       .max_model_len = 512,
                       .vision_devices = {device.get()},
                       .language_devices = {device.get()}});
  }
  Model loaded() {
    auto model = load();
    BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
    return std::move(*model);
  }
  std::filesystem::path file(const std::string& name) const { return dir.path() / name; }
  std::string failure() {
    const auto model = load();
    BOOST_TEST(!model.has_value());
    return message_of(model);
  }

  TempDir dir;
  std::unique_ptr<Device> device = make_backend("cpu");
};

Image some_image(int32_t width, int32_t height) {
  Image image{width, height, {}};
  image.rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (size_t i = 0; i < image.rgb.size(); ++i)
    image.rgb[i] = static_cast<uint8_t>(i * i / 7 + i / 300);
  return image;
}

// Two pictures with text before, between and behind.
Prompt some_prompt(const Model& model) {
  ChatInput chat;
  chat.messages.push_back({"user",
                           {{ChatPart::Kind::kText, "Compare"},
                            {ChatPart::Kind::kImage, ""},
                            {ChatPart::Kind::kText, "with"},
                            {ChatPart::Kind::kImage, ""},
                            {ChatPart::Kind::kText, "please."}}});
  std::vector<std::shared_ptr<const ImagePatches>> images;
  for (const auto& [width, height] : {std::pair(200, 120), std::pair(90, 260)}) {
    auto patches = model.prompts->preprocess(some_image(width, height), {});
    BOOST_REQUIRE_MESSAGE(patches.has_value(), message_of(patches));
    images.push_back(std::make_shared<ImagePatches>(std::move(*patches)));
  }
  auto prompt = model.prompts->chat(chat, std::move(images));
  BOOST_REQUIRE_MESSAGE(prompt.has_value(), message_of(prompt));
  return std::move(*prompt);
}

// Everything the weights are used for.
std::vector<float> fingerprint(Model& model, Device& device) {
  StepRunner runner(model, device, 64);
  auto sequence = runner.start(some_prompt(model));
  return runner.logits({{&sequence, std::ssize(sequence.tokens)}});
}

const std::vector<float>& demo_fingerprint() {
  static const std::vector<float> expected = [] {
    QwenCopy demo;
    Model model = demo.loaded();
    return fingerprint(model, *demo.device);
  }();
  return expected;
}

void check_computes_the_same(QwenCopy& demo) {
  Model model = demo.loaded();
  BOOST_TEST(fingerprint(model, *demo.device) == demo_fingerprint());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(qwen2_5_vl_tests)

BOOST_AUTO_TEST_CASE(newer_names_are_the_same_model) {
  QwenCopy demo;
  auto tensors = read_tensors(demo.file("model.safetensors"));
  for (auto& tensor : tensors) {
    if (tensor.name.starts_with("visual.")) {
      tensor.name = "model." + tensor.name;
    } else if (tensor.name.starts_with("model.")) {
      tensor.name = "model.language_model." + tensor.name.substr(6);
    }
  }
  write_tensors(demo.file("model.safetensors"), tensors);
  check_computes_the_same(demo);
}

BOOST_AUTO_TEST_CASE(settings_in_text_config_are_the_same_model) {
  for (const bool newest : {false, true}) {
    QwenCopy demo;
    edit_json(demo.file("config.json"), [&](nlohmann::json& json) {
      nlohmann::json text = {{"model_type", "qwen2_5_vl_text"}};
      for (const char* key :
           {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
            "num_attention_heads", "num_key_value_heads", "max_position_embeddings", "rms_norm_eps",
            "rope_theta", "rope_scaling", "hidden_act", "use_sliding_window", "sliding_window",
            "tie_word_embeddings"}) {
        text[key] = json[key];
        json.erase(key);
      }
      if (newest) {
        text["rope_parameters"] = {
            {"rope_type", "default"}, {"rope_theta", 100.0}, {"mrope_section", {4, 6, 6}}};
        text.erase("rope_theta");
        text.erase("rope_scaling");
        json["vision_config"]["model_type"] = "qwen2_5_vl_vision";
        json["vision_config"]["in_channels"] = 3;
        json["vision_config"]["rope_parameters"] = {{"rope_type", "axial"},
                                                    {"rope_theta", 10000.0}};
      }
      json["text_config"] = text;
    });
    check_computes_the_same(demo);
  }
}

BOOST_AUTO_TEST_CASE(output_matrix_of_its_own_is_used_when_not_tied) {
  QwenCopy demo;
  auto tensors = read_tensors(demo.file("model.safetensors"));
  edit_json(demo.file("config.json"),
            [](nlohmann::json& json) { json["tie_word_embeddings"] = false; });
  BOOST_TEST(demo.failure().find("no tensor lm_head.weight") != std::string::npos);
  StoredTensor head;
  for (const auto& tensor : tensors) {
    if (tensor.name == "model.embed_tokens.weight") head = tensor;
  }
  head.name = "lm_head.weight";
  tensors.push_back(head);
  write_tensors(demo.file("model.safetensors"), tensors);
  check_computes_the_same(demo);
}

BOOST_AUTO_TEST_CASE(spec_says_what_the_files_say) {
  QwenCopy demo;
  const Model model = demo.loaded();
  BOOST_TEST(model.spec.architecture == "Qwen2_5_VLForConditionalGeneration");
  BOOST_TEST(model.spec.has_vision);
  BOOST_TEST(model.spec.n_position_axes == 3);
  BOOST_TEST(model.spec.vocab_size == 1014);  // the matrix has 1024 rows
  BOOST_TEST(model.spec.dim == 192);
  BOOST_TEST(model.spec.kv_layout.n_kv_heads == 2);
  BOOST_TEST(model.spec.eos_ids == (std::vector<int32_t>{1002, 1000}));
  BOOST_TEST(!model.spec.default_temperature.has_value());
  BOOST_TEST(model.spec.tower_bytes > 0U);
}

BOOST_AUTO_TEST_CASE(prompt_may_be_cut_inside_its_pictures) {
  QwenCopy demo;
  Model model = demo.loaded();
  const Prompt prompt = some_prompt(model);
  BOOST_REQUIRE(prompt.position_delta < 0);
  const auto n = std::ssize(prompt.token_ids);
  const int64_t inside = prompt.spans[0].first + prompt.spans[0].count / 2;
  const int64_t cuts[] = {1, prompt.spans[0].first, inside, prompt.spans[1].first + 1, n - 1};
  for (const int64_t cut : cuts) {
    StepRunner runner(model, *demo.device, 64);
    auto sequence = runner.start(prompt);
    runner.step({{&sequence, cut}});
    BOOST_TEST(runner.logits({{&sequence, n - cut}}) == demo_fingerprint(), "cut at " << cut);
  }
}

// The position of an output token is not its index: pictures advance it by less than their tokens.
BOOST_AUTO_TEST_CASE(decoding_equals_prefill_of_the_same_tokens_and_positions) {
  QwenCopy demo;
  Model model = demo.loaded();
  const Prompt prompt = some_prompt(model);
  const auto n = static_cast<int32_t>(prompt.token_ids.size());
  StepRunner runner(model, *demo.device, 64);
  auto sequence = runner.start(prompt);
  runner.generate(sequence, 12, n);

  Prompt all = prompt;
  all.token_ids = sequence.tokens;
  all.positions.clear();
  for (int32_t axis = 0; axis < 3; ++axis) {
    const auto own = prompt.positions.begin() + axis * n;
    all.positions.insert(all.positions.end(), own, own + n);
    const int32_t next = *std::ranges::max_element(prompt.positions) + 1;
    for (int32_t i = 0; i < 12; ++i) all.positions.push_back(next + i);
  }
  StepRunner other(model, *demo.device, 64);
  auto decoded = other.start(prompt);
  other.generate(decoded, 12, n);
  const auto expected = other.logits({{&decoded, 1}});
  StepRunner again(model, *demo.device, 64);
  auto whole = again.start(all);
  BOOST_TEST(again.logits({{&whole, n + 12}}) == expected);
}

BOOST_AUTO_TEST_CASE(pictures_never_outgrow_the_work_area) {
  QwenCopy demo;
  edit_json(demo.file("preprocessor_config.json"),
            [](nlohmann::json& json) { json["max_pixels"] = 12845056; });
  for (const int32_t max_patches : {1, 64, 100, 333, 4096}) {
    auto model = demo.load(max_patches);
    BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
    const int64_t rows = model->spec.max_encode_rows;
    BOOST_TEST(rows <= 512);  // no prompt has room for more
    for (const auto& [width, height] :
         {std::pair(1, 1), std::pair(900, 900), std::pair(2000, 300), std::pair(10, 2000)}) {
      const auto patches = model->prompts->preprocess(some_image(width, height), {});
      BOOST_REQUIRE_MESSAGE(patches.has_value(), message_of(patches));
      const int64_t tokens = model->towers.front()->tokens_of(*patches);
      BOOST_TEST(4 * tokens == int64_t{patches->grid_height} * patches->grid_width);
      if (tokens < model->spec.max_model_len) BOOST_TEST(tokens <= rows);
      if (max_patches >= 64) BOOST_TEST(4 * tokens <= max_patches + 400);
    }
  }
}

BOOST_AUTO_TEST_CASE(several_pictures_share_the_work_area) {
  QwenCopy demo;  // pictures of at most 49 tokens
  const auto few = demo.load(16384);
  BOOST_REQUIRE_MESSAGE(few.has_value(), message_of(few));
  BOOST_TEST(few->spec.max_encode_rows >= 4 * 49);
  BOOST_TEST(few->spec.max_encode_rows < 12 * 49);  // four pictures, not all that is allowed
}

BOOST_AUTO_TEST_CASE(nothing_is_allocated_after_load) {
  ReferenceDevice device;
  auto model = load_model({.path = demo_model_dir("qwen2_5_vl"),
                           .dtype = DType::kF32,
                           .max_step_tokens = 128,
                           .vision_devices = {&device},
                           .language_devices = {&device}});
  BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
  auto rows = device.allocate(200 * 192 * sizeof(float));
  BOOST_REQUIRE(rows.has_value());
  const auto before = device.n_allocations();
  const auto patches = model->prompts->preprocess(some_image(300, 200), {});
  BOOST_REQUIRE(patches.has_value());
  const ImagePatches* images[] = {&*patches, &*patches};
  const int64_t n = 2 * int64_t{model->towers.front()->tokens_of(*patches)};
  const Matrix out{rows->data(), DType::kF32, n, 192, 192};
  BOOST_TEST(model->towers.front()->encode(images, out).has_value());
  BOOST_TEST(device.n_allocations() == before);
}

namespace {

struct BadFile {
  const char* file;
  const char* edit;     // a JSON merge patch
  const char* message;  // the part of the error that matters
};
std::ostream& operator<<(std::ostream& out, const BadFile& bad) {
  return out << bad.file << " " << bad.edit;
}

const BadFile kBadFiles[] = {
    {"config.json", R"({"use_sliding_window": true})",
     "config.json: use_sliding_window true is not supported"},
    {"config.json", R"({"rope_scaling": {"mrope_section": [4, 6, 7]}})",
     "config.json: rope_scaling.mrope_section [4, 6, 7] must be three numbers whose sum is half of "
     "the head size, 16"},
    {"config.json", R"({"hidden_size": null})", "config.json: hidden_size is missing"},
    {"config.json", R"({"num_attention_heads": 5})",
     "config.json: num_attention_heads is 5, which does not divide hidden_size 192"},
    {"config.json", R"({"vision_config": {"window_size": 50}})",
     "config.json: vision_config.window_size is 50, which is no multiple of 28"},
    {"config.json", R"({"vision_config": {"out_hidden_size": 191}})",
     "config.json: vision_config.out_hidden_size is 191, but the language model's hidden_size is "
     "192"},
    {"config.json", R"({"vision_config": {"depth": 5}})", "no tensor visual.blocks.4.norm1.weight"},
    {"config.json", R"({"vision_config": {"temporal_patch_size": 1}})",
     "preprocessor_config.json: temporal_patch_size is 2, but vision_config.temporal_patch_size in "
     "config.json is 1"},
    {"config.json", R"({"vision_config": null})",
     "config.json: vision_config.hidden_size is missing"},
    {"config.json", R"({"text_config": {"model_type": "llama"}})",
     "config.json: text_config.model_type \"llama\" is not supported"},
    {"config.json", R"({"image_token_id": 999})",
     "config.json: image_token_id is 999, but tokenizer.json has <|image_pad|> as 1012"},
    {"config.json", R"({"num_hidden_layers": 5})",
     "no tensor layers.4.input_layernorm.weight (under any of its known names)"},
    {"config.json", R"({"num_key_value_heads": 6})", "k_proj.weight is [64, 192], but"},
    {"preprocessor_config.json", R"({"patch_size": 16})",
     "preprocessor_config.json: patch_size is 16, but vision_config.patch_size in config.json is "
     "14"},
    {"preprocessor_config.json", R"({"merge_size": 4})",
     "preprocessor_config.json: merge_size is 4, but vision_config.spatial_merge_size in "
     "config.json is 2"},
};

}  // namespace

BOOST_DATA_TEST_CASE(contradiction_is_refused_by_file_and_field,
                     boost::unit_test::data::make(kBadFiles), bad) {
  QwenCopy demo;
  edit_json(demo.file(bad.file),
            [&](nlohmann::json& json) { json.merge_patch(nlohmann::json::parse(bad.edit)); });
  const auto message = demo.failure();
  BOOST_TEST(message.find(bad.message) != std::string::npos, message);
  BOOST_TEST(message.find('\n') == std::string::npos);
}

BOOST_DATA_TEST_CASE(missing_weight_is_named,
                     boost::unit_test::data::make(
                         {"visual.patch_embed.proj.weight", "visual.blocks.1.attn.qkv.bias",
                          "visual.blocks.3.mlp.up_proj.bias", "visual.merger.ln_q.weight",
                          "visual.merger.mlp.2.bias", "model.layers.2.self_attn.k_proj.bias"}),
                     name) {
  QwenCopy demo;
  auto tensors = read_tensors(demo.file("model.safetensors"));
  BOOST_TEST(std::erase_if(tensors, [&](const StoredTensor& t) { return t.name == name; }) == 1U);
  write_tensors(demo.file("model.safetensors"), tensors);
  std::string canonical = name;
  if (canonical.starts_with("model.")) canonical = canonical.substr(6);
  const auto message = demo.failure();
  BOOST_TEST(message.find("no tensor " + canonical) != std::string::npos, message);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
