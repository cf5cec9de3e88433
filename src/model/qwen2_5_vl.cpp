#include "model/qwen2_5_vl.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/log.h"
#include "model/family.h"
#include "model/llama.h"
#include "model/qwen2_5_vl_prompts.h"
#include "model/weights.h"

namespace hs {

namespace {

constexpr const char* kImageToken = "<|image_pad|>";

// Lowers the largest picture to what one encode() call may hold.
void cap_pixels(const LoadOptions& options, QwenProcessorConfig& processor) {
  const int64_t patch_area = int64_t{processor.patch_size} * processor.patch_size;
  const int64_t pixels_max = options.max_encode_patches * patch_area;
  if (processor.max_pixels <= pixels_max) return;
  log_info("pictures are scaled down to {} pixels, not the checkpoint's {} (max_encode_patches {})",
           pixels_max, processor.max_pixels, options.max_encode_patches);
  processor.max_pixels = pixels_max;
  processor.min_pixels = std::min(processor.min_pixels, pixels_max);
}

// What the work area must hold: the pictures of one encode() call, as far as the options allow, but
// at least one of any that the processor makes and a prompt has room for.
int64_t patches_at_once(const LoadOptions& options, const QwenProcessorConfig& processor,
                        const ModelSpec& spec) {
  const int64_t merge_area = int64_t{processor.merge_size} * processor.merge_size;
  const int64_t one = qwen_patches_max(processor);
  const int64_t all = std::min<int64_t>(one * options.max_encode_images,
                                        options.max_encode_patches / merge_area * merge_area);
  return std::min(std::max(one, all), spec.max_model_len * merge_area);
}

}  // namespace

QwenVlConfig read_qwen_vl_config(FieldReader& config) {
  QwenVlConfig result;
  FieldReader nested = config.child("text_config");
  const bool is_nested = config.has("text_config");
  if (const auto type = nested.text("model_type", "qwen2_5_vl_text");
      type != "qwen2_5_vl_text" && type != "qwen2_5_vl") {
    nested.complain("model_type", fmt::format("\"{}\" is not supported (qwen2_5_vl_text is)", type),
                    ErrorKind::kUnsupported);
  }
  result.text = read_qwen2_mrope_config(is_nested ? nested : config);
  // Newer files state this beside text_config.
  if (config.flag("tie_word_embeddings", false)) result.text.tie_word_embeddings = true;
  FieldReader vision = config.child("vision_config");
  result.vision = read_qwen_vision_config(vision);
  result.image_token_id = config.integer("image_token_id", 0, 1 << 24, 151655);
  if (!config.failed() && result.vision.out_dim != result.text.dim) {
    vision.complain("out_hidden_size",
                    fmt::format("is {}, but the language model's hidden_size is {}",
                                result.vision.out_dim, result.text.dim));
  }
  return result;
}

std::string canonical_qwen_vl_name(std::string_view stored) {
  return std::string(strip_language_prefixes(stored));
}

Status check_qwen_processor(const QwenProcessorConfig& processor, const QwenVisionConfig& vision) {
  struct Size {
    const char* own_name;
    int32_t own;
    const char* tower_name;
    int32_t tower;
  };
  const Size sizes[] = {
      {"patch_size", processor.patch_size, "patch_size", vision.patch_size},
      {"merge_size", processor.merge_size, "spatial_merge_size", vision.merge_size},
      {"temporal_patch_size", processor.temporal_patch_size, "temporal_patch_size",
       vision.temporal_patch_size}};
  for (const Size& size : sizes) {
    if (size.own == size.tower) continue;
    return fail(ErrorKind::kDataLoss,
                fmt::format("preprocessor_config.json: {} is {}, but vision_config.{} in "
                            "config.json is {}",
                            size.own_name, size.own, size.tower_name, size.tower));
  }
  return {};
}

Result<Model> load_qwen2_5_vl_family(const FamilyInput& input) {
  const LoadOptions& options = input.options;
  std::optional<Error> error;
  FieldReader reader("config.json", input.config, error);
  const QwenVlConfig config = read_qwen_vl_config(reader);
  if (error) return std::unexpected(std::move(*error));
  auto processor = read_qwen_processor(options.path);
  if (!processor) return std::unexpected(std::move(processor.error()));
  if (auto status = check_qwen_processor(*processor, config.vision); !status) {
    return std::unexpected(std::move(status.error()));
  }
  auto text = PromptText::load(options.path);
  if (!text) return std::unexpected(std::move(text.error()));
  if (auto status = check_image_token(text->tokenizer(), kImageToken, "image_token_id",
                                      config.image_token_id);
      !status) {
    return std::unexpected(std::move(status.error()));
  }
  auto checkpoint = Checkpoint::open(options.path, canonical_qwen_vl_name, options.progress);
  if (!checkpoint) return std::unexpected(std::move(checkpoint.error()));
  auto spec = make_spec(input, config.text, text->tokenizer(), *checkpoint);
  if (!spec) return std::unexpected(std::move(spec.error()));
  cap_pixels(options, *processor);
  const int64_t max_patches = patches_at_once(options, *processor, *spec);

  Model model;
  model.spec = std::move(*spec);
  model.spec.has_vision = true;
  model.spec.max_encode_rows = max_patches / config.vision.merge_area();
  model.spec.n_position_axes = config.text.rope.n_axes();
  const ProjectorShape projector = config.vision.merger();
  model.spec.feature_dim = static_cast<int32_t>(projector.feature_dim);
  model.spec.cut_before_projector = cuts_before_projector(options.cut, projector);
  for (Device* device : options.vision_devices) {
    WeightLoader weights(*checkpoint, *device, options.dtype);
    auto tower = QwenVision::load(weights, *device, config.vision, max_patches,
                                  !model.spec.cut_before_projector);
    if (!tower) return std::unexpected(std::move(tower.error()));
    model.spec.tower_bytes = weights.weight_bytes();
    model.towers.push_back(std::move(*tower));
  }
  if (auto status = load_languages(*checkpoint, options, config.text, model); !status) {
    return std::unexpected(std::move(status.error()));
  }
  if (auto status = load_projectors(*checkpoint, options, projector, model); !status) {
    return std::unexpected(std::move(status.error()));
  }
  model.prompts = make_qwen_prompt_builder(
      std::move(*text), {.image_token_id = config.image_token_id, .processor = *processor});
  return model;
}

}  // namespace hs
