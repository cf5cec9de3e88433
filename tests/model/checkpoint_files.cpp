#include "checkpoint_files.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/check.h"
#include "golden_cases.h"
#include "model/safetensors.h"

namespace hs::test {

namespace {

const char* const kTextFiles[] = {
    "config.json",    "generation_config.json", "preprocessor_config.json", "processor_config.json",
    "tokenizer.json", "tokenizer_config.json",  "chat_template.json"};

StoredTensor random_tensor(const std::string& name, std::vector<int64_t> shape, double spread,
                           double mean, std::mt19937& random) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  std::normal_distribution<float> draw(static_cast<float>(mean), static_cast<float>(spread));
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = draw(random);
  StoredTensor tensor{name, "F32", std::move(shape),
                      std::string(values.size() * sizeof(float), '\0')};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

}  // namespace

std::vector<StoredTensor> read_tensors(const std::filesystem::path& file) {
  const auto opened = SafetensorsFile::open(file);
  HS_CHECK(opened.has_value());
  std::vector<StoredTensor> result;
  for (const auto& tensor : opened->tensors()) {
    const auto data = opened->data(tensor);
    result.push_back({tensor.name, tensor.dtype_text, tensor.shape,
                      std::string(reinterpret_cast<const char*>(data.data()), data.size())});
  }
  return result;
}

void write_tensors(const std::filesystem::path& file, const std::vector<StoredTensor>& tensors,
                   size_t header_padding) {
  auto header = nlohmann::ordered_json::object();
  size_t offset = 0;
  for (const auto& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8 + header_padding, ' ');
  const uint64_t length = text.size();
  std::filesystem::remove(file);  // it may be a link to the demo's weights
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(reinterpret_cast<const char*>(&length), sizeof length);
  stream << text;
  for (const auto& tensor : tensors) stream << tensor.bytes;
  stream.close();
  HS_CHECK(stream.good());
}

void copy_demo_checkpoint(const std::filesystem::path& to, std::string_view name) {
  const auto from = demo_model_dir(name);
  for (const char* file : kTextFiles) {
    if (std::filesystem::exists(from / file)) std::filesystem::copy_file(from / file, to / file);
  }
  std::filesystem::create_symlink(from / "model.safetensors", to / "model.safetensors");
}

void edit_json(const std::filesystem::path& file,
               const std::function<void(nlohmann::json&)>& edit) {
  std::ifstream in(file);
  auto json = nlohmann::json::parse(in);
  edit(json);
  std::ofstream(file) << json.dump(2);
}

void write_random_llama(const std::filesystem::path& dir, const nlohmann::json& config,
                        uint32_t seed) {
  nlohmann::json full = {{"architectures", {"LlamaForCausalLM"}},
                         {"model_type", "llama"},
                         {"vocab_size", 1024},
                         {"hidden_size", 96},
                         {"intermediate_size", 160},
                         {"num_hidden_layers", 3},
                         {"num_attention_heads", 6},
                         {"num_key_value_heads", 2},
                         {"head_dim", 16},
                         {"max_position_embeddings", 512},
                         {"rms_norm_eps", 1e-5},
                         {"eos_token_id", 2}};
  full.update(config);
  const bool qwen2 = full["model_type"] == "qwen2";
  const bool attention_bias = full.value("attention_bias", false);
  const bool mlp_bias = full.value("mlp_bias", false);
  if (qwen2) full["architectures"] = {"Qwen2ForCausalLM"};
  std::ofstream(dir / "config.json") << full.dump(2);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.json"}) {
    std::filesystem::copy_file(demo_model_dir() / name, dir / name);
  }
  std::mt19937 random(seed);
  std::vector<StoredTensor> tensors;
  const int64_t dim = full["hidden_size"];
  const int64_t ff = full["intermediate_size"];
  const int64_t q = full["num_attention_heads"].get<int64_t>() * full["head_dim"].get<int64_t>();
  const int64_t kv = full["num_key_value_heads"].get<int64_t>() * full["head_dim"].get<int64_t>();
  const auto matrix = [&](const std::string& name, int64_t out, int64_t in) {
    tensors.push_back(
        random_tensor(name, {out, in}, 1.0 / std::sqrt(static_cast<double>(in)), 0, random));
  };
  const auto bias = [&](const std::string& name, int64_t out, bool is_there) {
    if (is_there) tensors.push_back(random_tensor(name, {out}, 0.5, 0, random));
  };
  const auto norm = [&](const std::string& name) {
    tensors.push_back(random_tensor(name, {dim}, 0.1, 1.0, random));
  };
  matrix("model.embed_tokens.weight", full["vocab_size"], dim);
  for (int64_t i = 0; i < full["num_hidden_layers"].get<int64_t>(); ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    matrix(layer + ".self_attn.q_proj.weight", q, dim);
    matrix(layer + ".self_attn.k_proj.weight", kv, dim);
    matrix(layer + ".self_attn.v_proj.weight", kv, dim);
    bias(layer + ".self_attn.q_proj.bias", q, qwen2 || attention_bias);
    bias(layer + ".self_attn.k_proj.bias", kv, qwen2 || attention_bias);
    bias(layer + ".self_attn.v_proj.bias", kv, qwen2 || attention_bias);
    bias(layer + ".self_attn.o_proj.bias", dim, attention_bias);
    bias(layer + ".mlp.gate_proj.bias", ff, mlp_bias);
    bias(layer + ".mlp.up_proj.bias", ff, mlp_bias);
    bias(layer + ".mlp.down_proj.bias", dim, mlp_bias);
    matrix(layer + ".self_attn.o_proj.weight", dim, q);
    matrix(layer + ".mlp.gate_proj.weight", ff, dim);
    matrix(layer + ".mlp.up_proj.weight", ff, dim);
    matrix(layer + ".mlp.down_proj.weight", dim, ff);
    norm(layer + ".input_layernorm.weight");
    norm(layer + ".post_attention_layernorm.weight");
  }
  norm("model.norm.weight");
  if (!full.value("tie_word_embeddings", false)) matrix("lm_head.weight", full["vocab_size"], dim);
  write_tensors(dir / "model.safetensors", tensors);
}

}  // namespace hs::test
