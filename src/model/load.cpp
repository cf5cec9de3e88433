// The registry of model families, by the architecture that config.json names.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/check.h"
#include "model/architecture.h"
#include "model/family.h"
#include "model/model.h"

namespace hs {

namespace {

struct Family {
  std::string_view architecture;
  std::string_view model_type;  // for configs that name no architecture
  Result<Model> (*load)(const FamilyInput&);
};

constexpr Family kFamilies[] = {
    {"LlavaForConditionalGeneration", "llava", load_llava_family},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", load_qwen2_5_vl_family},
    {"LlamaForCausalLM", "llama", load_llama_family},
    {"Qwen2ForCausalLM", "qwen2", load_qwen2_family},
};

Result<const Family*> find_family(const nlohmann::json& config) {
  std::optional<Error> error;
  FieldReader reader("config.json", config, error);
  std::string architecture;
  if (reader.is_array("architectures")) {
    const auto& list = config["architectures"];
    if (!list.empty() && list[0].is_string()) architecture = list[0].get<std::string>();
  }
  const std::string model_type = reader.text("model_type", "");
  if (error) return std::unexpected(std::move(*error));
  std::string known;
  for (const auto& family : kFamilies) {
    if (architecture.empty() ? family.model_type == model_type
                             : family.architecture == architecture) {
      return &family;
    }
    known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  }
  if (architecture.empty() && model_type.empty()) {
    return fail(ErrorKind::kDataLoss,
                "config.json: architectures is missing; is this a Hugging Face checkpoint?");
  }
  return fail(ErrorKind::kUnsupported,
              fmt::format("config.json: architecture {} is not supported (these are: {})",
                          architecture.empty() ? model_type : architecture, known));
}

}  // namespace

Result<std::string> supported_architecture(std::string_view config_json, std::string_view name) {
  const auto config = parse_json_object(config_json, name);
  if (!config) return std::unexpected(config.error());
  const auto family = find_family(*config);
  if (!family) return std::unexpected(family.error());
  return std::string((*family)->architecture);
}

Result<Model> load_model(const LoadOptions& options) {
  HS_CHECK(options.dtype == DType::kF32 || options.dtype == DType::kBF16 ||
           options.dtype == DType::kF16);
  HS_CHECK_GT(options.block_size, 0);
  HS_CHECK_GT(options.max_step_tokens, 0);
  HS_CHECK_GT(options.max_encode_images, 0);
  HS_CHECK_GT(options.max_encode_patches, 0);
  std::error_code code;
  if (!std::filesystem::is_directory(options.path, code)) {
    return fail(ErrorKind::kNotFound,
                fmt::format("{} is not a directory with a model", options.path.string()));
  }
  const auto config = read_json_file(options.path / "config.json");
  if (!config) return std::unexpected(config.error());
  const auto family = find_family(*config);
  if (!family) return std::unexpected(family.error());
  auto model = (*family)->load({options, *config});
  if (model) model->spec.architecture = (*family)->architecture;
  return model;
}

}  // namespace hs
