// LlamaForCausalLM and Qwen2ForCausalLM: language models without pictures.
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.h"
#include "model/family.h"
#include "model/llama.h"

namespace hs {

namespace {

Result<Model> load_text_family(const FamilyInput& input, LlamaConfig (*read)(FieldReader&)) {
  const LoadOptions& options = input.options;
  std::optional<Error> error;
  FieldReader reader("config.json", input.config, error);
  const LlamaConfig config = read(reader);
  if (error) return std::unexpected(std::move(*error));

  auto text = PromptText::load(options.path);
  if (!text) return std::unexpected(std::move(text.error()));
  auto checkpoint = Checkpoint::open(
      options.path,
      [](std::string_view stored) { return std::string(strip_language_prefixes(stored)); },
      options.progress);
  if (!checkpoint) return std::unexpected(std::move(checkpoint.error()));
  auto spec = make_spec(input, config, text->tokenizer(), *checkpoint);
  if (!spec) return std::unexpected(std::move(spec.error()));

  Model model;
  model.spec = std::move(*spec);
  if (auto status = load_languages(*checkpoint, options, config, model); !status) {
    return std::unexpected(std::move(status.error()));
  }
  model.prompts = make_text_prompt_builder(std::move(*text));
  return model;
}

}  // namespace

Result<Model> load_llama_family(const FamilyInput& input) {
  return load_text_family(input, read_llama_config);
}

Result<Model> load_qwen2_family(const FamilyInput& input) {
  return load_text_family(input, read_qwen2_config);
}

}  // namespace hs
