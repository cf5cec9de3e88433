// config.json of a Hugging Face checkpoint -> ModelShape.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/json_fields.h"
#include "plan/model_shape.h"

namespace hs {
namespace {

constexpr int32_t kSizeMax = 1 << 18;
constexpr int32_t kLayersMax = 1 << 12;
constexpr int32_t kRowsMax = 1 << 20;

// Llama's configs leave out what transformers has as a default; LLaVA-1.5's do.
LanguageShape read_language(FieldReader& text) {
  LanguageShape shape;
  const bool llama = text.text("model_type", "") == "llama";
  const auto fallback = [&](int32_t value) {
    return llama ? std::optional<int32_t>(value) : std::nullopt;
  };
  shape.dim = text.integer("hidden_size", 1, kSizeMax, fallback(4096));
  shape.n_layers = text.integer("num_hidden_layers", 1, kLayersMax, fallback(32));
  shape.ff_dim = text.integer("intermediate_size", 1, kSizeMax, fallback(11008));
  shape.n_heads = text.integer("num_attention_heads", 1, kSizeMax, fallback(32));
  if (text.failed()) return shape;
  shape.n_kv_heads = text.integer("num_key_value_heads", 1, kSizeMax, shape.n_heads);
  shape.d_head = text.integer("head_dim", 1, kSizeMax, shape.dim / shape.n_heads);
  if (int64_t{shape.n_heads} * shape.d_head > kSizeMax || shape.n_kv_heads > shape.n_heads) {
    text.complain("num_attention_heads", "or num_key_value_heads or head_dim is too large");
  }
  shape.vocab = text.integer("vocab_size", 1, 1 << 24, fallback(32000));
  shape.max_positions = text.integer("max_position_embeddings", 1, 1 << 26, 32768);
  shape.tied = text.flag("tie_word_embeddings", false);
  return shape;
}

void read_qwen_vision(FieldReader& vision, int32_t language_dim, VisionShape& shape) {
  shape.n_layers = vision.integer("depth", 1, kLayersMax, 32);
  // Qwen2-VL's tower has a width of its own name, and no gate.
  const bool ungated = vision.has("embed_dim");
  shape.dim = vision.integer(ungated ? "embed_dim" : "hidden_size", 1, kSizeMax, 1280);
  const double ratio = vision.number("mlp_ratio", 0.1, 64, 4);
  const auto wide = static_cast<int32_t>(ratio * shape.dim);
  shape.ff_dim = ungated ? wide : vision.integer("intermediate_size", 1, kSizeMax, 3420);
  shape.ff_matrices = ungated ? 2 : 3;
  shape.patch_size = vision.integer("patch_size", 1, 4096, 14);
  const int32_t merge = vision.integer("spatial_merge_size", 1, 64, 2);
  shape.merge = merge * merge;
  const int32_t frames = vision.integer("temporal_patch_size", 1, 64, 2);
  shape.patch_dim = 3 * frames * shape.patch_size * shape.patch_size;
  shape.n_full_layers = shape.n_layers;
  if (vision.has("fullatt_block_indexes")) {
    const auto full = vision.integers("fullatt_block_indexes", 0, kLayersMax);
    const int32_t window = vision.integer("window_size", 1, kSizeMax, 112) / shape.patch_size;
    shape.window = window * window;
    shape.n_full_layers = static_cast<int32_t>(full.size());
    if (shape.n_full_layers > shape.n_layers) {
      vision.complain("fullatt_block_indexes", "names more layers than there are");
    }
  }
  shape.projector_dim = shape.dim * shape.merge;
  const int32_t out =
      vision.integer(ungated ? "hidden_size" : "out_hidden_size", 1, kSizeMax, language_dim);
  if (!vision.failed() && out != language_dim) {
    vision.complain("out_hidden_size", fmt::format("is {}, but the language model's hidden_size {}",
                                                   out, language_dim));
  }
  // preprocessor_config.json of the published checkpoints.
  shape.min_pixels = 56 * 56;
  shape.max_pixels = 12'845'056;
}

// CLIP, SigLIP, InternViT: fields as CLIPVisionConfig names them.
void read_plain_vision(FieldReader& config, FieldReader& vision, int32_t language_dim,
                       VisionShape& shape) {
  const bool clip = vision.text("model_type", "clip_vision_model") == "clip_vision_model";
  shape.dim = vision.integer("hidden_size", 1, kSizeMax, 1024);
  shape.ff_dim = vision.integer("intermediate_size", 1, kSizeMax, 4 * shape.dim);
  shape.patch_size = vision.integer("patch_size", 1, 4096, 14);
  shape.patch_dim = 3 * shape.patch_size * shape.patch_size;
  shape.image_size = vision.integer("image_size", 1, kSizeMax, 336);
  shape.n_layers = vision.integer("num_hidden_layers", 1, kLayersMax, 24);
  shape.class_token = clip;
  // -2: the output of the second last layer; the last one never runs.
  if (config.has("vision_feature_layer") && config.is_number("vision_feature_layer")) {
    const int32_t layer = config.integer("vision_feature_layer", -kLayersMax, kLayersMax);
    const int32_t run = layer < 0 ? shape.n_layers + 1 + layer : layer;
    if (run < 1 || run > shape.n_layers) {
      config.complain("vision_feature_layer", fmt::format("{} names no layer", layer));
    } else {
      shape.n_layers = run;
    }
  }
  shape.n_full_layers = shape.n_layers;
  shape.projector_dim = language_dim;
  const int64_t side = shape.image_size / std::max(shape.patch_size, 1);
  const double shrink = config.number("downsample_ratio", 0.01, 1, 1.0);
  shape.merge = static_cast<int32_t>(std::lround(1 / (shrink * shrink)));
  const int64_t rows = std::clamp<int64_t>(side * side / shape.merge, 1, kRowsMax);
  shape.fixed_rows = config.integer("image_seq_length", 1, kRowsMax, static_cast<int32_t>(rows));
}

Result<ModelShape> read_shape(const nlohmann::json& object, std::string_view file) {
  ModelShape shape;
  shape.name = file;
  shape.source = file;
  std::optional<Error> error;
  FieldReader config(std::string(file), object, error);
  if (!config.is_object("vision_config")) {
    return fail(ErrorKind::kUnsupported,
                fmt::format("{}: vision_config is missing: the model has no vision part", file), {},
                "vision_config");
  }
  const char* nested = config.is_object("text_config")  ? "text_config"
                       : config.is_object("llm_config") ? "llm_config"
                                                        : nullptr;
  FieldReader inner = config.child(nested == nullptr ? "vision_config" : nested);
  shape.language = read_language(nested == nullptr ? config : inner);
  // A tie is said at the top for some, in the text part for others.
  if (nested != nullptr && config.has("tie_word_embeddings")) {
    shape.language.tied = config.flag("tie_word_embeddings", false);
  }
  FieldReader vision = config.child("vision_config");
  const std::string type = config.text("model_type", "");
  const bool qwen = type.starts_with("qwen") && type.find("_vl") != std::string::npos;
  if (!error) {
    if (qwen) {
      read_qwen_vision(vision, shape.language.dim, shape.vision);
    } else {
      read_plain_vision(config, vision, shape.language.dim, shape.vision);
    }
  }
  if (error) return std::unexpected(*error);
  return shape;
}

}  // namespace

Result<ModelShape> read_model_config(std::string_view json, std::string_view file) {
  const auto object = parse_json_object(json, file);
  if (!object) return std::unexpected(object.error());
  return read_shape(*object, file);
}

Result<ModelShape> read_model_config(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto file = std::filesystem::is_directory(path, ignored) ? path / "config.json" : path;
  const auto object = read_json_file(file);
  if (!object) return std::unexpected(object.error());
  return read_shape(*object, file.string());
}

}  // namespace hs
