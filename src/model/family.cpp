#include "model/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "model/json_fields.h"
#include "model/llama_shard.h"

namespace hs {

namespace {

// Every id that any file calls an end token: generation_config.json names those of chats,
// config.json, at its top or in text_config, the one of the base model.
std::vector<int32_t> find_eos_ids(const FamilyInput& input, const GenerationConfig& generation,
                                  std::optional<Error>& error) {
  std::vector<int32_t> ids = generation.eos_ids;
  FieldReader top("config.json", input.config, error);
  FieldReader text = top.child("text_config");
  for (FieldReader* source : {&top, &text}) {
    for (const int32_t id : source->integers("eos_token_id", 0, INT32_MAX)) {
      if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
    }
  }
  return ids;
}

}  // namespace

std::string checkpoint_name(const std::filesystem::path& path) {
  std::error_code code;
  const auto real = std::filesystem::canonical(path, code);
  return (code ? path : real).filename().string();
}

Result<ModelSpec> make_spec(const FamilyInput& input, const LlamaConfig& text,
                            const Tokenizer& tokenizer, const Checkpoint& checkpoint) {
  const LoadOptions& options = input.options;
  if (options.max_model_len > text.max_positions) {
    return fail(
        ErrorKind::kInvalidArgument,
        fmt::format(
            "max-model-len is {}, but the model has {} positions (max_position_embeddings in "
            "config.json)",
            options.max_model_len, text.max_positions));
  }
  for (const DeviceGroup& group : options.language_devices) {
    const auto n_ranks = static_cast<int32_t>(group.ranks.size());
    if (Status split = check_split(text, n_ranks); !split) {
      return std::unexpected(std::move(split.error()));
    }
  }
  auto generation = read_generation_config(options.path);
  if (!generation) return std::unexpected(std::move(generation.error()));
  std::optional<Error> error;
  ModelSpec spec;
  spec.eos_ids = find_eos_ids(input, *generation, error);
  if (error) return std::unexpected(std::move(*error));
  spec.name = checkpoint_name(options.path);
  spec.revision = checkpoint.revision(
      input.config.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  spec.max_model_len = options.max_model_len > 0 ? options.max_model_len : text.max_positions;
  spec.vocab_size = std::min(tokenizer.size(), text.vocab_rows);
  spec.dim = text.dim;
  spec.n_layers = text.n_layers;
  spec.kv_layout = {options.dtype, options.block_size, text.n_kv_heads, text.d_head};
  spec.default_temperature = generation->temperature;
  spec.default_top_p = generation->top_p;
  spec.default_top_k = generation->top_k;
  spec.default_min_p = generation->min_p;
  spec.default_repetition_penalty = generation->repetition_penalty;
  return spec;
}

std::string_view strip_language_prefixes(std::string_view stored) {
  for (bool stripped = true; stripped;) {
    stripped = false;
    for (const std::string_view prefix : {"model.", "language_model."}) {
      if (stored.starts_with(prefix)) {
        stored.remove_prefix(prefix.size());
        stripped = true;
      }
    }
  }
  return stored;
}

Status check_image_token(const Tokenizer& tokenizer, const std::string& image_token,
                         std::string_view field, int32_t id) {
  const auto found = tokenizer.id_of(image_token);
  if (found == id) return {};
  return fail(ErrorKind::kDataLoss,
              fmt::format("config.json: {} is {}, but tokenizer.json has {} {}", field, id,
                          image_token, found ? fmt::format("as {}", *found) : "nowhere"));
}

}  // namespace hs
