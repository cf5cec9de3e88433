// LlamaForCausalLM: a language model without pictures.
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.h"
#include "model/family.h"
#include "model/llama.h"

namespace hs {

Result<Model> load_llama_family(const FamilyInput& input) {
  const LoadOptions& options = input.options;
  HS_CHECK(options.language_device != nullptr);
  std::optional<Error> error;
  FieldReader reader("config.json", input.config, error);
  const LlamaConfig config = read_llama_config(reader);
  if (error) return std::unexpected(std::move(*error));

  auto text = PromptText::load(options.path);
  if (!text) return std::unexpected(std::move(text.error()));
  auto checkpoint = Checkpoint::open(options.path, [](std::string_view stored) {
    return std::string(strip_language_prefixes(stored));
  });
  if (!checkpoint) return std::unexpected(std::move(checkpoint.error()));
  auto spec = make_spec(input, config, text->tokenizer(), *checkpoint);
  if (!spec) return std::unexpected(std::move(spec.error()));

  Model model;
  model.spec = std::move(*spec);
  WeightLoader weights(*checkpoint, *options.language_device, options.dtype);
  auto language =
      Llama::load(weights, *options.language_device, config, llama_options(options, model.spec));
  if (!language) return std::unexpected(std::move(language.error()));
  model.spec.prefill_weight_bytes = (*language)->layer_weight_bytes();
  model.spec.step_weight_bytes =
      (*language)->layer_weight_bytes() + (*language)->head_weight_bytes();
  model.spec.weight_bytes = weights.weight_bytes();
  model.language = std::move(*language);
  model.prompts = make_text_prompt_builder(std::move(*text));
  return model;
}

}  // namespace hs
