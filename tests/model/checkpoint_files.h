// Checkpoints of tests: copies of the demo model with something changed, and small random models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hs::test {

struct StoredTensor {
  std::string name;
  std::string dtype;  // "F16"
  std::vector<int64_t> shape;
  std::string bytes;
};

std::vector<StoredTensor> read_tensors(const std::filesystem::path& file);
// `header_padding`: spaces after the header, which move the data to other addresses.
void write_tensors(const std::filesystem::path& file, const std::vector<StoredTensor>& tensors,
                   size_t header_padding = 0);

// A demo checkpoint's files in another directory; the weights are a link to the original.
void copy_demo_checkpoint(const std::filesystem::path& to, std::string_view name = "llava");
void edit_json(const std::filesystem::path& file, const std::function<void(nlohmann::json&)>& edit);

// A LlamaForCausalLM of random float32 weights with the demo's tokenizer. `config` has Hugging
// Face's field names; what it leaves out: 1024 rows, width 96, ff 160, 3 layers, 6 heads, 2 KV
// heads of 16, biases where attention_bias or mlp_bias ask for them. With model_type "qwen2" a
// Qwen2ForCausalLM: q, k and v have biases.
void write_random_llama(const std::filesystem::path& dir, const nlohmann::json& config,
                        uint32_t seed);

}  // namespace hs::test
