// A checkpoint loads in every form it is published in and then computes exactly the same; one that
// is incomplete or contradicts itself is refused with a line that names the file and what is wrong.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "checkpoint_files.h"
#include "golden_cases.h"
#include "model/model.h"
#include "model/weights.h"
#include "step_runner.h"
#include "support/backends.h"
#include "support/results.h"
#include "support/temp_dir.h"

namespace hs::test {

namespace {

struct DemoCopy {
  DemoCopy() { copy_demo_checkpoint(dir.path()); }

  Result<Model> load(DType dtype = DType::kF32) {
    return load_model({.path = dir.path(),
                       .dtype = dtype,
                       .max_step_tokens = 128,
                       .max_encode_images = 1,
                       .vision_devices = {device.get()},
                       .language_devices = {device.get()}});
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

// A picture of the right size whose patches are all different.
std::shared_ptr<ImagePatches> some_patches() {
  auto patches = std::make_shared<ImagePatches>();
  patches->grid_height = patches->grid_width = 8;
  patches->patch_dim = 588;
  patches->data.resize(64 * 588);
  for (size_t i = 0; i < patches->data.size(); ++i)
    patches->data[i] = static_cast<float>(i % 97) / 48.0F - 1.0F;
  return patches;
}

// Everything the weights are used for: logits after a prompt with a picture.
std::vector<float> fingerprint(Model& model, Device& device) {
  Prompt prompt;
  prompt.token_ids = {1, 630, 285};
  prompt.token_ids.resize(3 + 64, 1000);
  prompt.token_ids.insert(prompt.token_ids.end(), {259, 314, 634, 285});
  prompt.spans = {{3, 64}};
  prompt.images = {some_patches()};
  StepRunner runner(model, device, 8);
  auto sequence = runner.start(prompt);
  return runner.logits({{&sequence, std::ssize(sequence.tokens)}});
}

const std::vector<float>& demo_fingerprint() {
  static const std::vector<float> expected = [] {
    DemoCopy demo;
    auto model = demo.load();
    BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
    return fingerprint(*model, *demo.device);
  }();
  return expected;
}

void check_computes_the_same(DemoCopy& demo) {
  auto model = demo.load();
  BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
  BOOST_TEST(fingerprint(*model, *demo.device) == demo_fingerprint());
}

std::string replace_prefix(const std::string& name, std::string_view from, std::string_view to) {
  return name.starts_with(from) ? std::string(to) + name.substr(from.size()) : name;
}

struct Generation {
  const char* name;
  std::vector<std::pair<const char*, const char*>> prefixes;
};
std::ostream& operator<<(std::ostream& out, const Generation& generation) {
  return out << generation.name;
}

const Generation kGenerations[] = {
    {"original_repository",
     {{"language_model.model.", "model."},
      {"language_model.lm_head.", "lm_head."},
      {"vision_tower.vision_model.", "model.vision_tower.vision_tower.vision_model."},
      {"multi_modal_projector.linear_1.", "model.mm_projector.0."},
      {"multi_modal_projector.linear_2.", "model.mm_projector.2."}}},
    {"hugging_face_first", {}},
    {"hugging_face_second",
     {{"language_model.model.", "model.language_model."},
      {"language_model.lm_head.", "lm_head."},
      {"vision_tower.", "model.vision_tower."},
      {"multi_modal_projector.", "model.multi_modal_projector."}}},
    {"transformers_5",
     {{"language_model.model.", "model.language_model."},
      {"language_model.lm_head.", "lm_head."},
      {"vision_tower.vision_model.", "model.vision_tower."},
      {"multi_modal_projector.", "model.multi_modal_projector."}}},
    {"transformers_5_first_names", {{"vision_tower.vision_model.", "vision_tower."}}},
};

StoredTensor* find(std::vector<StoredTensor>& tensors, std::string_view ending) {
  for (auto& tensor : tensors) {
    if (tensor.name.ends_with(ending)) return &tensor;
  }
  return nullptr;
}

const std::string kQProj = "language_model.model.layers.2.self_attn.q_proj.weight";

}  // namespace

BOOST_AUTO_TEST_SUITE(load_tests)

BOOST_DATA_TEST_CASE(every_generation_of_names_is_the_same_model,
                     boost::unit_test::data::make(kGenerations), generation) {
  DemoCopy demo;
  auto tensors = read_tensors(demo.file("model.safetensors"));
  for (auto& tensor : tensors) {
    for (const auto& [from, to] : generation.prefixes) {
      const auto renamed = replace_prefix(tensor.name, from, to);
      if (renamed != tensor.name) {
        tensor.name = renamed;
        break;
      }
    }
  }
  write_tensors(demo.file("model.safetensors"), tensors);
  check_computes_the_same(demo);
}

BOOST_AUTO_TEST_CASE(shards_are_the_same_model) {
  DemoCopy demo;
  const auto tensors = read_tensors(demo.file("model.safetensors"));
  std::filesystem::remove(demo.file("model.safetensors"));
  std::vector<StoredTensor> shards[3];
  nlohmann::json map;
  for (size_t i = 0; i < tensors.size(); ++i) {
    shards[i % 3].push_back(tensors[i]);
    map[tensors[i].name] = "part-" + std::to_string(i % 3) + ".safetensors";
  }
  for (size_t i = 0; i < 3; ++i)
    write_tensors(demo.file("part-" + std::to_string(i) + ".safetensors"), shards[i]);
  demo.dir.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  check_computes_the_same(demo);

  std::filesystem::remove(demo.file("part-1.safetensors"));
  BOOST_TEST(demo.failure() ==
             "part-1.safetensors, listed in model.safetensors.index.json, is not there");
}

BOOST_AUTO_TEST_CASE(float32_and_odd_addresses_are_the_same_model) {
  DemoCopy demo;
  auto tensors = read_tensors(demo.file("model.safetensors"));
  write_tensors(demo.file("model.safetensors"), tensors, /*header_padding=*/3);
  check_computes_the_same(demo);
  for (auto& tensor : tensors) {
    std::vector<float> values(tensor.bytes.size() / 2);
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data() + 2 * i, 2);
      values[i] = half_to_float(bits);
    }
    tensor.dtype = "F32";
    tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  }
  write_tensors(demo.file("model.safetensors"), tensors, /*header_padding=*/1);
  check_computes_the_same(demo);
}

BOOST_AUTO_TEST_CASE(tensors_that_nobody_needs_do_no_harm) {
  DemoCopy demo;
  auto tensors = read_tensors(demo.file("model.safetensors"));
  tensors.push_back({"language_model.model.layers.0.self_attn.rotary_emb.inv_freq",
                     "F64",
                     {2},
                     std::string(16, 'x')});
  tensors.push_back(
      {"vision_tower.vision_model.embeddings.position_ids", "I64", {1}, std::string(8, '\0')});
  // The last vision layer does not run with vision_feature_layer -2, so it may also be missing.
  std::erase_if(tensors, [](const StoredTensor& t) {
    return t.name.find("encoder.layers.4.") != std::string::npos;
  });
  write_tensors(demo.file("model.safetensors"), tensors);
  check_computes_the_same(demo);
}

BOOST_AUTO_TEST_CASE(spec_says_what_the_files_say) {
  DemoCopy demo;
  edit_json(demo.file("generation_config.json"), [](nlohmann::json& json) {
    json["eos_token_id"] = {1001, 1000};
    json["min_p"] = 0.125;
    json["repetition_penalty"] = 1.05;
    json["temperature"] = 0.5;
    json["top_p"] = 0.9;
    json["top_k"] = 40;
  });
  auto model = demo.load(DType::kBF16);
  BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
  const ModelSpec& spec = model->spec;
  BOOST_TEST(spec.architecture == "LlavaForConditionalGeneration");
  BOOST_TEST(spec.has_vision);
  BOOST_TEST(spec.max_model_len == 2048);
  BOOST_TEST(spec.vocab_size == 1002);  // the matrix has 1024 rows
  BOOST_TEST(spec.dim == 192);
  BOOST_TEST(spec.n_layers == 4);
  BOOST_TEST(spec.eos_ids == (std::vector<int32_t>{1001, 1000, 2}));  // 2: config.json's
  BOOST_TEST((spec.kv_layout.dtype == DType::kBF16));
  BOOST_TEST(spec.kv_block_bytes() == 4U * 2 * 6 * 16 * 32 * 2);
  BOOST_TEST(*spec.default_temperature == 0.5F);
  BOOST_TEST(*spec.default_top_p == 0.9F);
  BOOST_TEST(*spec.default_top_k == 40);
  BOOST_TEST(*spec.default_min_p == 0.125F);
  BOOST_TEST(*spec.default_repetition_penalty == 1.05F);
  BOOST_TEST(spec.revision.size() == 16U);

  edit_json(demo.file("generation_config.json"), [](nlohmann::json& json) {
    json.erase("eos_token_id");
    json["do_sample"] = false;
  });
  model = demo.load();
  BOOST_REQUIRE(model.has_value());
  BOOST_TEST(model->spec.eos_ids == (std::vector<int32_t>{2}));  // text_config's
  BOOST_TEST(*model->spec.default_temperature == 0.5F);          // do_sample is passed over
}

BOOST_AUTO_TEST_CASE(revision_changes_with_config_and_with_weights) {
  DemoCopy demo;
  const auto revision = [&] { return demo.load()->spec.revision; };
  const auto first = revision();
  BOOST_TEST(revision() == first);
  auto tensors = read_tensors(demo.file("model.safetensors"));
  for (auto& tensor : tensors) tensor.bytes[0] = static_cast<char>(tensor.bytes[0] ^ 1);
  write_tensors(demo.file("model.safetensors"), tensors);
  const auto second = revision();
  BOOST_TEST(second != first);
  edit_json(demo.file("config.json"),
            [](nlohmann::json& json) { json["text_config"]["rms_norm_eps"] = 1e-6; });
  BOOST_TEST(revision() != second);
}

BOOST_AUTO_TEST_CASE(output_matrix_may_be_left_out_only_when_tied) {
  DemoCopy demo;
  auto tensors = read_tensors(demo.file("model.safetensors"));
  StoredTensor* head = find(tensors, "lm_head.weight");
  BOOST_REQUIRE(head != nullptr);
  head->bytes = find(tensors, "embed_tokens.weight")->bytes;
  write_tensors(demo.file("model.safetensors"), tensors);
  auto model = demo.load();
  BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
  const auto expected = fingerprint(*model, *demo.device);

  std::erase_if(tensors, [](const StoredTensor& t) { return t.name.ends_with("lm_head.weight"); });
  write_tensors(demo.file("model.safetensors"), tensors);
  BOOST_TEST(demo.failure().find("no tensor lm_head.weight") != std::string::npos);
  for (const bool nested : {true, false}) {
    edit_json(demo.file("config.json"), [&](nlohmann::json& json) {
      json["tie_word_embeddings"] = !nested;
      json["text_config"]["tie_word_embeddings"] = nested;
    });
    model = demo.load();
    BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
    BOOST_TEST(fingerprint(*model, *demo.device) == expected);
  }
}

BOOST_AUTO_TEST_CASE(several_feature_layers_stand_side_by_side) {
  DemoCopy demo;
  edit_json(demo.file("config.json"),
            [](nlohmann::json& json) { json["vision_feature_layer"] = {-2, -2}; });
  BOOST_TEST(demo.failure() ==
             "model.safetensors: tensor multi_modal_projector.linear_1.weight is [192, 128], but "
             "config.json makes "
             "it [192, 256]");
  // With the second layer's part of the projector zero, the result is that of the first alone.
  auto tensors = read_tensors(demo.file("model.safetensors"));
  StoredTensor* linear = find(tensors, "linear_1.weight");
  std::string wide;
  for (size_t row = 0; row < 192; ++row)
    wide += linear->bytes.substr(row * 256, 256) + std::string(256, '\0');
  linear->bytes = wide;
  linear->shape = {192, 256};
  write_tensors(demo.file("model.safetensors"), tensors);
  edit_json(demo.file("config.json"),
            [](nlohmann::json& json) { json["vision_feature_layer"] = {-2, 5}; });
  auto model = demo.load();
  BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
  const auto logits = fingerprint(*model, *demo.device);
  for (size_t i = 0; i < logits.size(); ++i) {
    BOOST_TEST(std::abs(logits[i] - demo_fingerprint()[i]) < 1e-3F);
  }
}

namespace {

struct BadWeights {
  const char* name;
  std::function<void(std::vector<StoredTensor>&)> damage;
  const char* message;
};
std::ostream& operator<<(std::ostream& out, const BadWeights& bad) {
  return out << bad.name;
}

const BadWeights kBadWeights[] = {
    {"tensor_missing",
     [](auto& tensors) {
       std::erase_if(tensors, [](const StoredTensor& t) { return t.name == kQProj; });
     },
     "no tensor layers.2.self_attn.q_proj.weight"},
    {"vision_tensor_missing",
     [](auto& tensors) {
       std::erase_if(tensors,
                     [](const StoredTensor& t) { return t.name.ends_with("pre_layrnorm.bias"); });
     },
     "no tensor vision.pre_layrnorm.bias"},
    {"other_shape", [](auto& tensors) { find(tensors, kQProj)->shape = {96, 384}; },
     "q_proj.weight is [96, 384], but config.json makes it [192, 192]"},
    {"used_tensor_of_float64",
     [](auto& tensors) {
       StoredTensor* tensor = find(tensors, kQProj);
       tensor->dtype = "F64";
       tensor->bytes.resize(tensor->bytes.size() * 4);
     },
     "stored as F64; F32, F16 and BF16 can be read"},
    {"used_tensor_of_unknown_format",
     [](auto& tensors) { find(tensors, kQProj)->dtype = "F9_NEW"; }, "stored as F9_NEW"},
    {"weight_under_two_names",
     [](auto& tensors) {
       StoredTensor copy = *find(tensors, kQProj);
       copy.name = "model.language_model.layers.2.self_attn.q_proj.weight";
       tensors.push_back(std::move(copy));
     },
     "is the same weight as"},
};

struct BadConfig {
  const char* file;
  const char* edit;     // a JSON merge patch
  const char* message;  // the part of the error that matters
};
std::ostream& operator<<(std::ostream& out, const BadConfig& bad) {
  return out << bad.file << " " << bad.edit;
}

const BadConfig kBadConfigs[] = {
    {"config.json", R"({"text_config": {"num_hidden_layers": 5}})",
     "no tensor layers.4.input_layernorm.weight (under any of its known names); does "
     "num_hidden_layers"},
    {"config.json", R"({"text_config": {"num_hidden_layers": 3}})",
     "config.json: num_hidden_layers is 3, but the weights have more layers"},
    {"config.json", R"({"text_config": {"num_attention_heads": 5}})",
     "config.json: text_config.num_attention_heads is 5, which does not divide hidden_size 192"},
    {"config.json", R"({"text_config": {"num_key_value_heads": 4}})",
     "config.json: text_config.num_key_value_heads is 4, which does not divide num_attention_heads "
     "6"},
    {"config.json", R"({"text_config": {"num_key_value_heads": 2}})",
     "k_proj.weight is [192, 192], but"},
    {"config.json", R"({"text_config": {"head_dim": 33}})",
     "head_dim is 33; rotary positions need an even one"},
    {"config.json", R"({"text_config": {"hidden_size": -1}})",
     "config.json: text_config.hidden_size must be a whole number"},
    {"config.json", R"({"text_config": {"hidden_size": 1.5}})",
     "text_config.hidden_size must be a whole number"},
    {"config.json", R"({"text_config": {"hidden_size": "192"}})",
     "text_config.hidden_size must be a whole number"},
    {"config.json", R"({"text_config": {"hidden_size": 1e300}})",
     "text_config.hidden_size must be a whole number"},
    {"config.json", R"({"text_config": {"vocab_size": 1000}})",
     "embed_tokens.weight is [1024, 192], but"},
    {"config.json", R"({"text_config": {"hidden_act": "gelu"}})",
     "text_config.hidden_act \"gelu\" is not supported"},
    {"config.json", R"({"text_config": {"model_type": "qwen2"}})",
     "text_config.model_type \"qwen2\" is not supported"},
    {"config.json", R"({"text_config": {"attention_bias": true}})",
     "no tensor layers.0.self_attn.q_proj.bias"},
    {"config.json", R"({"text_config": []})", "config.json: text_config must be an object"},
    {"config.json", R"({"vision_config": {"num_hidden_layers": 7}})",
     "no tensor vision.encoder.layers.5."},
    {"config.json", R"({"vision_config": {"image_size": 224}})",
     "crop_size makes pictures of 112 x 112"},
    {"config.json", R"({"vision_config": {"patch_size": 0}})",
     "vision_config.patch_size must be a whole number"},
    {"config.json", R"({"vision_config": {"patch_size": 16}})",
     "processor_config.json: patch_size is not vision_config.patch_size of config.json (16)"},
    {"config.json", R"({"vision_config": {"model_type": "siglip_vision_model"}})",
     "vision_config.model_type \"siglip_vision_model\" is not supported"},
    {"config.json", R"({"vision_feature_layer": 6})",
     "vision_feature_layer is 6, but the vision tower has 5 layers"},
    {"config.json", R"({"vision_feature_layer": -7})", "vision_feature_layer is -7, but"},
    {"config.json", R"({"vision_feature_layer": []})", "vision_feature_layer names no layer"},
    {"config.json", R"({"vision_feature_layer": "last"})",
     "vision_feature_layer must hold whole numbers"},
    {"config.json", R"({"vision_feature_select_strategy": "cls_patch"})",
     "\"cls_patch\" is not supported"},
    {"config.json", R"({"vision_feature_select_strategy": "full"})",
     "processor_config.json: vision_feature_select_strategy is not that of config.json (\"full\")"},
    {"config.json", R"({"projector_hidden_act": "mish"})",
     "projector_hidden_act \"mish\" is not supported"},
    {"config.json", R"({"image_token_index": 999})",
     "config.json: image_token_index is 999, but tokenizer.json has <image> as 1000"},
    {"config.json", R"({"architectures": ["BertModel"]})",
     "config.json: architecture BertModel is not supported"},
    {"config.json", R"({"architectures": null, "model_type": null})",
     "config.json: architectures is missing"},
    {"preprocessor_config.json", R"({"crop_size": 224})",
     "preprocessor_config.json: crop_size makes pictures of 224"},
    {"preprocessor_config.json", R"({"resample": 2})",
     "resample other than 3 (bicubic) is not supported"},
    {"preprocessor_config.json", R"({"image_std": [0.2, 0.0, 0.2]})",
     "image_std must be above zero"},
    {"preprocessor_config.json", R"({"image_mean": [0.2, 0.1]})",
     "image_mean must be a list of 3 numbers"},
    {"preprocessor_config.json", R"({"do_center_crop": false})", "do_center_crop is false"},
    {"preprocessor_config.json", R"({"do_resize": "yes"})",
     "preprocessor_config.json: do_resize must be true or false"},
    {"processor_config.json", R"({"num_additional_image_tokens": 0})",
     "num_additional_image_tokens must be 1"},
    {"processor_config.json", R"({"image_token": "<picture>"})",
     "tokenizer.json has <picture> nowhere"},
    {"generation_config.json", R"({"eos_token_id": "</s>"})",
     "generation_config.json: eos_token_id must hold whole"},
    {"generation_config.json", R"({"repetition_penalty": 0})",
     "generation_config.json: repetition_penalty must be a number"},
    {"generation_config.json", R"({"temperature": -1})",
     "generation_config.json: temperature must be a number"},
};

}  // namespace

BOOST_DATA_TEST_CASE(bad_weights_are_refused_by_name, boost::unit_test::data::make(kBadWeights),
                     bad) {
  DemoCopy demo;
  auto tensors = read_tensors(demo.file("model.safetensors"));
  bad.damage(tensors);
  write_tensors(demo.file("model.safetensors"), tensors);
  const auto message = demo.failure();
  BOOST_TEST(message.find(bad.message) != std::string::npos, message);
}

BOOST_DATA_TEST_CASE(contradiction_is_refused_by_file_and_field,
                     boost::unit_test::data::make(kBadConfigs), bad) {
  DemoCopy demo;
  edit_json(demo.file(bad.file),
            [&](nlohmann::json& json) { json.merge_patch(nlohmann::json::parse(bad.edit)); });
  const auto message = demo.failure();
  BOOST_TEST(message.find(bad.message) != std::string::npos, message);
}

BOOST_AUTO_TEST_CASE(hole_in_the_file_is_refused) {
  DemoCopy demo;
  const auto bytes = std::filesystem::file_size(demo.file("model.safetensors"));
  std::filesystem::remove(demo.file("model.safetensors"));
  std::filesystem::copy_file(demo_model_dir() / "model.safetensors",
                             demo.file("model.safetensors"));
  std::filesystem::resize_file(demo.file("model.safetensors"), bytes / 2);
  BOOST_TEST(demo.failure().find("is truncated") != std::string::npos);
  std::filesystem::resize_file(demo.file("model.safetensors"), bytes);
  const auto file = SafetensorsFile::open(demo.file("model.safetensors"));
  BOOST_REQUIRE(file.has_value());
  uint64_t holes = 0;
  for (const auto& tensor : file->tensors()) holes += file->hole_bytes(tensor);
  if (holes == 0) return;  // this file system stores zeros
  BOOST_TEST(demo.failure().find("were never written (a hole in the file)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(directory_without_a_model_is_explained) {
  DemoCopy demo;
  std::filesystem::remove(demo.file("model.safetensors"));
  BOOST_TEST(
      demo.failure().find("has neither model.safetensors nor model.safetensors.index.json") !=
      std::string::npos);
  demo.dir.write("pytorch_model.bin", "x");
  BOOST_TEST(demo.failure().find("weights in .bin files are not read, only safetensors") !=
             std::string::npos);
  demo.dir.write("model.safetensors",
                 "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 6290992\n");
  BOOST_TEST(demo.failure().find("model.safetensors: is a Git LFS pointer") != std::string::npos);
  demo.dir.write("config.json", "{]");
  BOOST_TEST(demo.failure().find("config.json is not valid JSON") != std::string::npos);
  std::filesystem::remove(demo.file("config.json"));
  BOOST_TEST(demo.failure().find("config.json is not there") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(index_must_be_plain_and_true) {
  DemoCopy demo;
  const auto tensors = read_tensors(demo.file("model.safetensors"));
  std::filesystem::remove(demo.file("model.safetensors"));
  const auto index = [&](const std::string& map) {
    demo.dir.write("model.safetensors.index.json", "{\"weight_map\": " + map + "}");
    return demo.failure();
  };
  BOOST_TEST(index(R"({"a": "../secret.safetensors"})").find("not a plain file name") !=
             std::string::npos);
  BOOST_TEST(index(R"({"a": 7})").find("weight_map.a must be a file name") != std::string::npos);
  BOOST_TEST(index("[]").find("weight_map is missing") != std::string::npos);
  write_tensors(demo.file("all.safetensors"), tensors);
  BOOST_TEST(index(R"({"other": "all.safetensors"})").find("tensor other, listed in") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(newer_processor_file_holds_the_image_processor) {
  DemoCopy demo;
  nlohmann::json preprocessor;
  edit_json(demo.file("preprocessor_config.json"),
            [&](nlohmann::json& json) { preprocessor = json; });
  std::filesystem::remove(demo.file("preprocessor_config.json"));
  BOOST_TEST(demo.failure().find("preprocessor_config.json is not there") != std::string::npos);
  edit_json(demo.file("processor_config.json"), [&](nlohmann::json& json) {
    json["image_processor"] = preprocessor;
    json["image_processor"]["size"] = 112;  // the oldest spelling
    json["image_processor"]["crop_size"] = 112;
  });
  check_computes_the_same(demo);
}

BOOST_AUTO_TEST_CASE(length_may_be_lowered_but_not_raised) {
  DemoCopy demo;
  LoadOptions options{.path = demo.dir.path(),
                      .dtype = DType::kF32,
                      .max_model_len = 512,
                      .vision_devices = {demo.device.get()},
                      .language_devices = {demo.device.get()}};
  const auto lower = load_model(options);
  BOOST_REQUIRE_MESSAGE(lower.has_value(), message_of(lower));
  BOOST_TEST(lower->spec.max_model_len == 512);
  options.max_model_len = 4096;
  const auto higher = load_model(options);
  BOOST_REQUIRE(!higher.has_value());
  BOOST_TEST((higher.error().kind == ErrorKind::kInvalidArgument));
  BOOST_TEST(message_of(higher).find("max-model-len is 4096, but the model has 2048 positions") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(nothing_is_allocated_after_load) {
  ReferenceDevice device;
  auto model = load_model({.path = demo_model_dir(),
                           .dtype = DType::kF32,
                           .max_step_tokens = 128,
                           .max_encode_images = 1,
                           .vision_devices = {&device},
                           .language_devices = {&device}});
  BOOST_REQUIRE_MESSAGE(model.has_value(), message_of(model));
  BOOST_REQUIRE(model->languages.front()->allocate_kv(8).has_value());
  auto rows = device.allocate(64 * 192 * sizeof(float));
  BOOST_REQUIRE(rows.has_value());
  const auto before = device.n_allocations();
  const auto image = some_patches();
  const ImagePatches* images[] = {image.get()};
  BOOST_TEST(
      model->towers.front()->encode(images, {rows->data(), DType::kF32, 64, 192, 192}).has_value());
  LanguageStep step;
  step.token_ids = {1, -1, 5};
  step.positions = {0, 1, 2};
  step.slots = {16, 17, 18};
  step.cu_query = {0, 3};
  step.context_lens = {3};
  step.block_tables = {1};
  step.block_table_stride = 1;
  step.image_rows = {{1, 1, rows->data()}};
  step.sample_rows = {2};
  step.sampling = {{.temperature = 0.0F}};
  std::vector<SampledToken> out(1);
  BOOST_TEST(model->languages.front()->step(step, out).has_value());
  BOOST_TEST(device.n_allocations() == before);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
