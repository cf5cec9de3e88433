#include "model/llava.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.h"
#include "model/clip.h"
#include "model/device_memory.h"
#include "model/family.h"
#include "model/llama.h"
#include "model/projector.h"
#include "model/weights.h"

namespace hs {

namespace {

// vision_feature_layer counts hidden states: 0 is the embedding, n the output of layer n, -1 the
// last.
int32_t feature_depth(FieldReader& config, int32_t layer, int32_t n_layers) {
  const int32_t depth = layer >= 0 ? layer : n_layers + 1 + layer;
  if (depth >= 0 && depth <= n_layers) return depth;
  config.complain("vision_feature_layer",
                  fmt::format("is {}, but the vision tower has {} layers", layer, n_layers));
  return 0;
}

void read_features(FieldReader& config, LlavaConfig& result) {
  std::vector<int32_t> layers = config.integers("vision_feature_layer", -4096, 4096);
  if (layers.empty()) {
    if (config.is_array("vision_feature_layer"))
      config.complain("vision_feature_layer", "names no layer");
    layers = {-2};
  }
  if (layers.size() > 64) {
    config.complain("vision_feature_layer", "names more than 64 layers");
    layers.resize(1);
  }
  for (const int32_t layer : layers) {
    result.feature_depths.push_back(feature_depth(config, layer, result.vision.n_layers));
  }
  const std::string strategy = config.text("vision_feature_select_strategy", "default");
  result.drop_class = strategy == "default";
  if (strategy != "default" && strategy != "full") {
    config.complain("vision_feature_select_strategy",
                    fmt::format("\"{}\" is not supported (default, full)", strategy),
                    ErrorKind::kUnsupported);
  }
}

std::string image_token_field(const FieldReader& config) {
  return config.has("image_token_index") ? "image_token_index" : "image_token_id";
}

bool strip_prefix(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

ProjectorShape projector_shape(const LlavaConfig& config) {
  return {.linear_1 = "projector.linear_1",
          .linear_2 = "projector.linear_2",
          .feature_dim = int64_t{config.vision.dim} * std::ssize(config.feature_depths),
          .inner_dim = config.text.dim,
          .out_dim = config.text.dim,
          .activation = config.projector_activation,
          .bias = config.projector_bias};
}

// Pictures to CLIP features, and, unless that is done elsewhere, on to rows of the language model's
// width.
class LlavaVision final : public VisionModel {
 public:
  static Result<std::unique_ptr<LlavaVision>> load(WeightLoader& weights, Device& device,
                                                   const LlavaConfig& config, int32_t max_images,
                                                   bool projects);

  int32_t tokens_of(const ImagePatches& /*image*/) const override {
    return config_.tokens_per_image();
  }
  Status encode(std::span<const ImagePatches* const> images, Matrix out) override;

 private:
  LlavaVision(Device& device, const LlavaConfig& config, ClipTower tower)
      : device_(&device), config_(config), tower_(std::move(tower)) {}

  Device* device_;
  LlavaConfig config_;
  ClipTower tower_;
  std::optional<ProjectorWeights> projector_;
  Scratch features_;  // (max_images * tokens_per_image, feature_dim); not without a projector
  Scratch wide_;      // the tower's work area, then the projector's
};

Result<std::unique_ptr<LlavaVision>> LlavaVision::load(WeightLoader& weights, Device& device,
                                                       const LlavaConfig& config,
                                                       int32_t max_images, bool projects) {
  auto tower = ClipTower::load(weights, "vision", device, config.vision, config.feature_depths,
                               config.drop_class, max_images);
  if (!tower) return std::unexpected(std::move(tower.error()));
  const int64_t rows = int64_t{max_images} * config.tokens_per_image();
  const int64_t n_features = rows * tower->feature_dim();
  const int64_t wide = std::max(tower->wide_elements(), projects ? rows * config.text.dim : 0);
  std::unique_ptr<LlavaVision> vision(new LlavaVision(device, config, std::move(*tower)));
  if (projects) vision->projector_ = ProjectorWeights::load(weights, projector_shape(config));
  if (auto status = weights.status(); !status) return std::unexpected(std::move(status.error()));
  auto wide_area = Scratch::allocate(device, wide, device.activation_dtype());
  if (!wide_area) return std::unexpected(std::move(wide_area.error()));
  vision->wide_ = std::move(*wide_area);
  if (!projects) return vision;
  auto features_area = Scratch::allocate(device, n_features, device.activation_dtype());
  if (!features_area) return std::unexpected(std::move(features_area.error()));
  vision->features_ = std::move(*features_area);
  return vision;
}

Status LlavaVision::encode(std::span<const ImagePatches* const> images, Matrix out) {
  const int64_t rows = std::ssize(images) * tower_.rows_per_image();
  HS_CHECK_EQ(out.rows, rows);
  HS_CHECK_EQ(out.cols, projector_ ? int64_t{config_.text.dim} : tower_.feature_dim());
  const Matrix features = projector_ ? features_.view(rows, tower_.feature_dim()) : out;
  tower_.run(images, wide_, features);
  if (projector_) {
    projector_->run(device_->ops(), features, wide_.view(rows, config_.text.dim), out);
  }
  return device_->sync();
}

class LlavaPrompts final : public PromptBuilder {
 public:
  LlavaPrompts(PromptText text, const LlavaConfig& config, const ClipPreprocessing& preprocessing)
      : text_(std::move(text)), config_(config), preprocessing_(preprocessing) {}

  const Tokenizer& tokenizer() const override { return text_.tokenizer(); }
  const ToolFormat& tool_format() const override { return text_.tool_format(); }

  Result<int64_t> tokens_of(int32_t /*width*/, int32_t /*height*/,
                            const ImageOptions& /*options*/) const override {
    return config_.tokens_per_image();
  }

  Result<ImagePatches> preprocess(const Image& image,
                                  const ImageOptions& /*options*/) const override {
    if (preprocessing_.exact_width == 0) return clip_preprocess(image, preprocessing_.clip);
    return clip_preprocess(
        resize_bicubic(image, preprocessing_.exact_width, preprocessing_.exact_height),
        preprocessing_.clip);
  }

  Result<Prompt> chat(const ChatInput& input,
                      std::vector<std::shared_ptr<const ImagePatches>> images) const override {
    auto ids = text_.encode_chat(input);
    if (!ids) return std::unexpected(std::move(ids.error()));
    return with_images(*ids, std::move(images));
  }

  Result<Prompt> completion(std::string_view text, bool add_special_tokens) const override {
    return from_tokens(text_.encode_plain(text, add_special_tokens));
  }

  Prompt from_tokens(std::vector<int32_t> token_ids) const override {
    Prompt prompt;
    prompt.token_ids = std::move(token_ids);
    number_positions(prompt);
    return prompt;
  }

 private:
  Result<Prompt> with_images(const std::vector<int32_t>& ids,
                             std::vector<std::shared_ptr<const ImagePatches>> images) const {
    const auto tokens_of = [&](const ImagePatches&) { return config_.tokens_per_image(); };
    auto prompt = expand_images(ids, config_.image_token_id, std::move(images), tokens_of);
    if (prompt) number_positions(*prompt);
    return prompt;
  }

  PromptText text_;
  LlavaConfig config_;
  ClipPreprocessing preprocessing_;
};

struct ProcessorFiles {
  std::string image_token = "<image>";
  ClipPreprocessing preprocessing;
};

// processor_config.json holds everything in newer checkpoints; older ones have
// preprocessor_config.json beside it.
Result<ProcessorFiles> read_processor_files(const std::filesystem::path& dir,
                                            const LlavaConfig& config) {
  std::optional<Error> error;
  ProcessorFiles result;
  auto processor_json = read_json_file(dir / "processor_config.json");
  if (!processor_json) {
    if (processor_json.error().kind != ErrorKind::kNotFound)
      return std::unexpected(processor_json.error());
    processor_json.emplace(nlohmann::json::object());
  }
  FieldReader processor("processor_config.json", *processor_json, error);
  check_llava_processor(processor, config);
  result.image_token = processor.text("image_token", "<image>");
  if (processor.has("image_processor")) {
    FieldReader nested = processor.child("image_processor");
    result.preprocessing = read_clip_preprocessing(nested, config.vision);
  } else {
    const auto json = read_json_file(dir / "preprocessor_config.json");
    if (!json) return std::unexpected(json.error());
    FieldReader own("preprocessor_config.json", *json, error);
    result.preprocessing = read_clip_preprocessing(own, config.vision);
  }
  if (error) return std::unexpected(std::move(*error));
  return result;
}

}  // namespace

LlavaConfig read_llava_config(FieldReader& config) {
  LlavaConfig result;
  FieldReader nested = config.child("text_config");
  FieldReader& text = config.has("text_config") ? nested : config;
  if (const auto type = nested.text("model_type", "llama"); type != "llama") {
    nested.complain("model_type", fmt::format("\"{}\" is not supported (llama is)", type),
                    ErrorKind::kUnsupported);
  }
  result.text = read_llama_config(text);
  // Older files state this beside text_config.
  if (config.flag("tie_word_embeddings", false)) result.text.tie_word_embeddings = true;
  FieldReader vision = config.child("vision_config");
  result.vision = read_clip_config(vision, !config.has("vision_config"));
  if (config.failed()) return result;
  read_features(config, result);
  result.projector_activation = read_activation(config, "projector_hidden_act", "gelu");
  result.projector_bias = config.flag("multimodal_projector_bias", true);
  result.image_token_id = config.integer(image_token_field(config), 0, 1 << 24, 32000);
  return result;
}

void check_llava_processor(FieldReader& processor, const LlavaConfig& config) {
  if (processor.integer("patch_size", 1, 1 << 20, config.vision.patch_size) !=
      config.vision.patch_size) {
    processor.complain("patch_size",
                       fmt::format("is not vision_config.patch_size of config.json ({})",
                                   config.vision.patch_size));
  }
  const std::string strategy = config.drop_class ? "default" : "full";
  if (processor.text("vision_feature_select_strategy", strategy) != strategy) {
    processor.complain("vision_feature_select_strategy",
                       fmt::format("is not that of config.json (\"{}\")", strategy));
  }
  // Placeholders for a picture = patches + additional - (1 if the class position is dropped).
  if (processor.integer("num_additional_image_tokens", 0, 1 << 20, 1) != 1) {
    processor.complain("num_additional_image_tokens",
                       fmt::format("must be 1: a picture has {} embeddings in this model",
                                   config.tokens_per_image()));
  }
}

std::string canonical_llava_name(std::string_view stored) {
  std::string_view name = strip_language_prefixes(stored);
  if (strip_prefix(name, "vision_tower.")) {
    while (strip_prefix(name, "vision_tower.") || strip_prefix(name, "vision_model.")) {
    }
    return fmt::format("vision.{}", name);
  }
  if (strip_prefix(name, "multi_modal_projector.")) return fmt::format("projector.{}", name);
  if (strip_prefix(name, "mm_projector.0.")) return fmt::format("projector.linear_1.{}", name);
  if (strip_prefix(name, "mm_projector.2.")) return fmt::format("projector.linear_2.{}", name);
  return std::string(name);
}

Result<Model> load_llava_family(const FamilyInput& input) {
  const LoadOptions& options = input.options;
  std::optional<Error> error;
  FieldReader reader("config.json", input.config, error);
  const LlavaConfig config = read_llava_config(reader);
  if (error) return std::unexpected(std::move(*error));
  auto processor = read_processor_files(options.path, config);
  if (!processor) return std::unexpected(std::move(processor.error()));
  auto text = PromptText::load(options.path);
  if (!text) return std::unexpected(std::move(text.error()));
  if (auto status = check_image_token(text->tokenizer(), processor->image_token,
                                      image_token_field(reader), config.image_token_id);
      !status) {
    return std::unexpected(std::move(status.error()));
  }
  auto checkpoint = Checkpoint::open(options.path, canonical_llava_name, options.progress);
  if (!checkpoint) return std::unexpected(std::move(checkpoint.error()));
  auto spec = make_spec(input, config.text, text->tokenizer(), *checkpoint);
  if (!spec) return std::unexpected(std::move(spec.error()));

  Model model;
  model.spec = std::move(*spec);
  model.spec.has_vision = true;
  model.spec.max_encode_rows = int64_t{options.max_encode_images} * config.tokens_per_image();
  const ProjectorShape projector = projector_shape(config);
  model.spec.feature_dim = static_cast<int32_t>(projector.feature_dim);
  model.spec.cut_before_projector = cuts_before_projector(options.cut, projector);
  for (Device* device : options.vision_devices) {
    WeightLoader weights(*checkpoint, *device, options.dtype);
    auto tower = LlavaVision::load(weights, *device, config, options.max_encode_images,
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
  model.prompts =
      std::make_unique<LlavaPrompts>(std::move(*text), config, processor->preprocessing);
  return model;
}

}  // namespace hs
