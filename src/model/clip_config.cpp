#include "model/clip_config.h"

#include <fmt/format.h>

#include <string>

namespace hs {

namespace {

constexpr int32_t kDimMax = 1 << 16;
constexpr int32_t kSideMax = 1 << 13;
constexpr int32_t kBicubic = 3;  // PIL's number

struct Size {
  int32_t width = 0;
  int32_t height = 0;
};

// An int (a square), {"height": h, "width": w}, or {"shortest_edge": n} as {n, n} with is_edge.
Size read_size(FieldReader& reader, const std::string& key, int32_t fallback, bool& is_edge) {
  is_edge = true;
  if (!reader.has(key)) return {fallback, fallback};
  if (reader.is_number(key)) {
    const int32_t side = reader.integer(key, 1, kSideMax);
    return {side, side};
  }
  FieldReader size = reader.child(key);
  if (size.has("longest_edge") || size.has("max_height") || size.has("max_width")) {
    size.complain("longest_edge", "and max_height, max_width are not supported",
                  ErrorKind::kUnsupported);
  }
  if (size.has("shortest_edge")) {
    const int32_t edge = size.integer("shortest_edge", 1, kSideMax);
    return {edge, edge};
  }
  is_edge = false;
  return {size.integer("width", 1, kSideMax), size.integer("height", 1, kSideMax)};
}

void check_result_size(FieldReader& reader, const ClipPreprocessing& result, bool resizes_exactly,
                       const ClipConfig& tower) {
  const auto wrong = [&](std::string_view key, int32_t width, int32_t height) {
    reader.complain(
        key,
        fmt::format("makes pictures of {} x {}, but vision_config.image_size in config.json is {}",
                    width, height, tower.image_size));
  };
  if (result.clip.do_center_crop) {
    if (result.clip.crop_width != tower.image_size || result.clip.crop_height != tower.image_size) {
      wrong("crop_size", result.clip.crop_width, result.clip.crop_height);
    }
  } else if (!resizes_exactly) {
    reader.complain("do_center_crop",
                    "is false and size does not give both sides, so pictures would differ in size",
                    ErrorKind::kUnsupported);
  } else if (result.exact_width != tower.image_size || result.exact_height != tower.image_size) {
    wrong("size", result.exact_width, result.exact_height);
  }
}

}  // namespace

Epilogue read_activation(FieldReader& reader, std::string_view key, std::string_view fallback) {
  const std::string name = reader.text(key, std::string(fallback));
  if (name == "quick_gelu") return Epilogue::kQuickGelu;
  if (name == "gelu") return Epilogue::kGeluErf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Epilogue::kGeluTanh;
  if (name == "silu" || name == "swish") return Epilogue::kSilu;
  if (name == "relu") return Epilogue::kRelu;
  reader.complain(
      key, fmt::format("\"{}\" is not supported (quick_gelu, gelu, gelu_new, silu, relu)", name),
      ErrorKind::kUnsupported);
  return Epilogue::kNone;
}

ClipConfig read_clip_config(FieldReader& vision, bool absent) {
  ClipConfig config;
  if (const auto type = vision.text("model_type", "clip_vision_model");
      type != "clip_vision_model") {
    vision.complain("model_type",
                    fmt::format("\"{}\" is not supported (clip_vision_model is)", type),
                    ErrorKind::kUnsupported);
  }
  config.dim = vision.integer("hidden_size", 1, kDimMax, absent ? 1024 : 768);
  config.ff_dim = vision.integer("intermediate_size", 1, kDimMax, absent ? 4096 : 3072);
  config.n_layers = vision.integer("num_hidden_layers", 1, 1024, absent ? 24 : 12);
  config.n_heads = vision.integer("num_attention_heads", 1, 1024, absent ? 16 : 12);
  config.image_size = vision.integer("image_size", 1, kSideMax, absent ? 336 : 224);
  config.patch_size = vision.integer("patch_size", 1, 1024, absent ? 14 : 32);
  config.norm_eps = static_cast<float>(vision.number("layer_norm_eps", 0, 1, 1e-5));
  config.activation = read_activation(vision, "hidden_act", "quick_gelu");
  if (vision.integer("num_channels", 1, 1024, 3) != 3) vision.complain("num_channels", "must be 3");
  if (vision.failed()) return config;
  if (config.dim % config.n_heads != 0) {
    vision.complain(
        "num_attention_heads",
        fmt::format("is {}, which does not divide hidden_size {}", config.n_heads, config.dim));
  }
  if (config.patch_size > config.image_size) {
    vision.complain("patch_size", fmt::format("is {}, more than image_size {}", config.patch_size,
                                              config.image_size));
  }
  if (config.grid_side() > 1024)
    vision.complain("patch_size", "gives more than 1024 x 1024 patches");
  return config;
}

ClipPreprocessing read_clip_preprocessing(FieldReader& processor, const ClipConfig& tower) {
  ClipPreprocessing result;
  auto& clip = result.clip;
  clip.do_resize = processor.flag("do_resize", true);
  clip.do_center_crop = processor.flag("do_center_crop", true);
  clip.do_rescale = processor.flag("do_rescale", true);
  clip.do_normalize = processor.flag("do_normalize", true);
  clip.rescale_factor = processor.number("rescale_factor", 0, 1e6, 1.0 / 255.0);
  clip.patch_size = tower.patch_size;

  bool is_edge = false;
  const Size crop = read_size(processor, "crop_size", 224, is_edge);
  clip.crop_width = crop.width;
  clip.crop_height = crop.height;
  const Size size = read_size(processor, "size", 224, is_edge);
  clip.shortest_edge = size.width;
  const bool resizes_exactly = clip.do_resize && !is_edge;
  if (resizes_exactly) {
    result.exact_width = size.width;
    result.exact_height = size.height;
    clip.do_resize = false;
  }
  if ((clip.do_resize || resizes_exactly) &&
      processor.integer("resample", 0, 100, kBicubic) != kBicubic) {
    processor.complain("resample", "other than 3 (bicubic) is not supported",
                       ErrorKind::kUnsupported);
  }
  if (clip.do_normalize && processor.has("image_mean")) {
    const auto mean = processor.numbers("image_mean", 3);
    for (size_t i = 0; i < 3; ++i) clip.mean[i] = static_cast<float>(mean[i]);
  }
  if (clip.do_normalize && processor.has("image_std")) {
    const auto std = processor.numbers("image_std", 3);
    for (size_t i = 0; i < 3; ++i) {
      clip.std[i] = static_cast<float>(std[i]);
      if (!(clip.std[i] > 0)) processor.complain("image_std", "must be above zero");
    }
  }
  if (!processor.failed()) check_result_size(processor, result, resizes_exactly, tower);
  return result;
}

}  // namespace hs
