#include "model/qwen2_5_vl_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace hs {

namespace {

constexpr int32_t kPixelsMax = 1 << 28;  // keeps every later product far from overflow
constexpr int32_t kBicubic = 3;          // PIL's number

void read_area(FieldReader& reader, QwenProcessorConfig& config) {
  const bool has_min = reader.has("min_pixels");
  const bool has_max = reader.has("max_pixels");
  if (reader.has("size") && !(has_min && has_max)) {
    FieldReader size = reader.child("size");
    if (!has_min) config.min_pixels = size.integer("shortest_edge", 1, kPixelsMax);
    if (!has_max) config.max_pixels = size.integer("longest_edge", 1, kPixelsMax);
  }
  if (has_min) config.min_pixels = reader.integer("min_pixels", 1, kPixelsMax);
  if (has_max) config.max_pixels = reader.integer("max_pixels", 1, kPixelsMax);
  if (!reader.failed() && config.min_pixels > config.max_pixels)
    reader.complain(has_min ? "min_pixels" : "size", "asks for a minimum above the maximum");
}

void read_normalisation(FieldReader& reader, QwenProcessorConfig& config) {
  config.do_rescale = reader.flag("do_rescale", true);
  config.rescale_factor = reader.number("rescale_factor", 0, 1e6, 1.0 / 255.0);
  config.do_normalize = reader.flag("do_normalize", true);
  if (!config.do_normalize) return;
  if (reader.has("image_mean")) {
    const auto mean = reader.numbers("image_mean", 3);
    for (size_t i = 0; i < 3; ++i) config.mean[i] = static_cast<float>(mean[i]);
  }
  if (!reader.has("image_std")) return;
  const auto std = reader.numbers("image_std", 3);
  for (size_t i = 0; i < 3; ++i) {
    config.std[i] = static_cast<float>(std[i]);
    if (!(config.std[i] > 0)) reader.complain("image_std", "must be above zero");
  }
}

class QwenPrompts final : public PromptBuilder {
 public:
  QwenPrompts(PromptText text, const QwenPromptConfig& config)
      : text_(std::move(text)), config_(config) {}

  const Tokenizer& tokenizer() const override { return text_.tokenizer(); }
  const ToolFormat& tool_format() const override { return text_.tool_format(); }

  Result<int64_t> tokens_of(int32_t width, int32_t height,
                            const ImageOptions& options) const override {
    const QwenProcessorConfig wanted = wanted_for(width, height, options);
    const auto size = qwen_smart_resize(width, height, wanted);
    if (!size) return std::unexpected(size.error());
    const int64_t side = wanted.block_side();
    return (size->width / side) * (size->height / side);
  }

  Result<ImagePatches> preprocess(const Image& image, const ImageOptions& options) const override {
    return qwen_preprocess(image, wanted_for(image.width, image.height, options));
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
    number_mrope_positions(prompt, config_.processor.merge_size);
    return prompt;
  }

 private:
  // The processor's settings for one picture.
  QwenProcessorConfig wanted_for(int32_t width, int32_t height, const ImageOptions& options) const {
    QwenProcessorConfig wanted = apply_image_options(config_.processor, options);
    const auto size = qwen_smart_resize(width, height, wanted);
    const int64_t side = config_.processor.patch_size;
    const int64_t room = qwen_patches_max(config_.processor) * side * side;
    // Enlarging rounds up, so a raised minimum could lead past what the tower has room for.
    if (size && int64_t{size->width} * size->height > room)
      wanted.min_pixels = std::min(config_.processor.min_pixels, wanted.max_pixels);
    return wanted;
  }

  Result<Prompt> with_images(const std::vector<int32_t>& ids,
                             std::vector<std::shared_ptr<const ImagePatches>> images) const {
    const int32_t merge = config_.processor.merge_size;
    const auto tokens_of = [&](const ImagePatches& image) {
      return (image.grid_height / merge) * (image.grid_width / merge);
    };
    auto prompt = expand_images(ids, config_.image_token_id, std::move(images), tokens_of);
    if (prompt) number_mrope_positions(*prompt, merge);
    return prompt;
  }

  PromptText text_;
  QwenPromptConfig config_;
};

}  // namespace

QwenProcessorConfig parse_qwen_processor(FieldReader& reader) {
  QwenProcessorConfig config;
  read_area(reader, config);
  config.patch_size = reader.integer("patch_size", 1, 1024, config.patch_size);
  config.merge_size = reader.integer("merge_size", 1, 64, config.merge_size);
  config.temporal_patch_size =
      reader.integer("temporal_patch_size", 1, 64, config.temporal_patch_size);
  read_normalisation(reader, config);
  if (!reader.flag("do_resize", true))
    reader.complain("do_resize", "must be true: the patches need sides of whole blocks",
                    ErrorKind::kUnsupported);
  if (reader.integer("resample", 0, 100, kBicubic) != kBicubic)
    reader.complain("resample", "other than 3 (bicubic) is not supported", ErrorKind::kUnsupported);
  const int64_t block = config.block_side();
  if (block * block > config.max_pixels)
    reader.complain("merge_size", fmt::format("and patch_size make blocks of {} x {} pixels, more "
                                              "than the maximum of a picture",
                                              block, block));
  return config;
}

Result<QwenProcessorConfig> read_qwen_processor(const std::filesystem::path& dir) {
  std::optional<Error> error;
  QwenProcessorConfig config;
  const auto processor_json = read_json_file(dir / "processor_config.json");
  if (!processor_json && processor_json.error().kind != ErrorKind::kNotFound)
    return std::unexpected(processor_json.error());
  if (processor_json && processor_json->contains("image_processor")) {
    FieldReader processor("processor_config.json", *processor_json, error);
    FieldReader nested = processor.child("image_processor");
    config = parse_qwen_processor(nested);
  } else {
    const auto json = read_json_file(dir / "preprocessor_config.json");
    if (!json) return std::unexpected(json.error());
    FieldReader own("preprocessor_config.json", *json, error);
    config = parse_qwen_processor(own);
  }
  if (error) return std::unexpected(std::move(*error));
  return config;
}

QwenProcessorConfig apply_image_options(const QwenProcessorConfig& config,
                                        const ImageOptions& options) {
  QwenProcessorConfig result = config;
  result.max_pixels = std::min(options.max_pixels.value_or(config.max_pixels), config.max_pixels);
  if (options.low_detail) result.max_pixels = std::min(result.max_pixels, kQwenLowDetailPixels);
  result.min_pixels = std::min(options.min_pixels.value_or(config.min_pixels), result.max_pixels);
  return result;
}

void number_mrope_positions(Prompt& prompt, int32_t merge_size) {
  const size_t n = prompt.token_ids.size();
  prompt.positions.resize(3 * n);
  int32_t* const time = prompt.positions.data();
  int32_t* const row = time + n;
  int32_t* const column = row + n;
  size_t at = 0;
  int32_t next = 0;
  const auto number_text = [&](size_t end) {
    for (; at < end; ++at, ++next) time[at] = row[at] = column[at] = next;
  };
  HS_CHECK_EQ(prompt.spans.size(), prompt.images.size());
  for (size_t i = 0; i < prompt.spans.size(); ++i) {
    number_text(static_cast<size_t>(prompt.spans[i].first));
    const int32_t height = prompt.images[i]->grid_height / merge_size;
    const int32_t width = prompt.images[i]->grid_width / merge_size;
    HS_CHECK_EQ(prompt.spans[i].count, height * width);
    for (int32_t y = 0; y < height; ++y) {
      for (int32_t x = 0; x < width; ++x, ++at) {
        time[at] = next;
        row[at] = next + y;
        column[at] = next + x;
      }
    }
    next += std::max(height, width);
  }
  number_text(n);
  prompt.position_delta = next - static_cast<int32_t>(n);
}

std::unique_ptr<PromptBuilder> make_qwen_prompt_builder(PromptText text,
                                                        const QwenPromptConfig& config) {
  return std::make_unique<QwenPrompts>(std::move(text), config);
}

}  // namespace hs
