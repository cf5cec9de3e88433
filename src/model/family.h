// What every model family needs to load itself, and what the registry in load.cpp calls. A family
// is one file that reads like its paper: config, weight names, prompts, forward pass.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint.h"
#include "model/generation_config.h"
#include "model/llama_config.h"
#include "model/model.h"
#include "model/prompt.h"

namespace hs {

struct FamilyInput {
  const LoadOptions& options;
  const nlohmann::json& config;  // config.json
};

// LlavaForConditionalGeneration, Qwen2_5_VLForConditionalGeneration, LlamaForCausalLM,
// Qwen2ForCausalLM
Result<Model> load_llava_family(const FamilyInput& input);
Result<Model> load_qwen2_5_vl_family(const FamilyInput& input);
Result<Model> load_llama_family(const FamilyInput& input);
Result<Model> load_qwen2_family(const FamilyInput& input);

// The parts of a ModelSpec that all families with a Llama-like language model fill alike.
// End tokens are those of generation_config.json and of config.json together. Errors: max_model_len
// beyond the model, device groups that cannot split it, generation_config.json.
Result<ModelSpec> make_spec(const FamilyInput& input, const LlamaConfig& text,
                            const Tokenizer& tokenizer, const Checkpoint& checkpoint);

// Stored names of Llama weights without the prefixes of the several generations: "model.",
// "language_model.".
std::string_view strip_language_prefixes(std::string_view stored);

// The image token's id stands in config.json (in `field`) and in the tokenizer; both must mean the
// same token.
Status check_image_token(const Tokenizer& tokenizer, const std::string& image_token,
                         std::string_view field, int32_t id);

}  // namespace hs
