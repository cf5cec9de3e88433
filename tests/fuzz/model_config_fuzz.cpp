// Hostile bytes as each JSON file of a checkpoint: readers complain or give values that are safe to
// compute with.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "model/clip_config.h"
#include "model/generation_config.h"
#include "model/json_fields.h"
#include "model/llava.h"
#include "model/qwen2_5_vl.h"
#include "model/qwen2_5_vl_prompts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = hs::parse_json_object(text, "fuzz");
  if (!json) return 0;
  std::optional<hs::Error> error;
  hs::FieldReader reader("config.json", *json, error);
  const hs::LlavaConfig config = hs::read_llava_config(reader);
  if (!error) {
    HS_CHECK_EQ(config.text.n_heads % config.text.n_kv_heads, 0);
    HS_CHECK_GT(config.vision.n_patches(), 0);
    HS_CHECK(!config.feature_depths.empty());
    hs::rope_frequencies(config.text.rope, config.text.d_head, config.text.max_positions, 64);
    hs::check_llava_processor(reader, config);
    hs::read_clip_preprocessing(reader, config.vision);
  }
  std::optional<hs::Error> processor_error;
  hs::FieldReader processor("preprocessor_config.json", *json, processor_error);
  const hs::QwenProcessorConfig pictures = hs::parse_qwen_processor(processor);
  if (!processor_error) {
    const int64_t patches_max = hs::qwen_patches_max(pictures);
    for (const auto& [width, height] : {std::pair(1, 1), {200, 1}, {3, 600}, {4000, 3000}}) {
      const auto picture = hs::qwen_smart_resize(width, height, pictures);
      HS_CHECK(picture.has_value());
      HS_CHECK_LE(
          int64_t{picture->width / pictures.patch_size} * (picture->height / pictures.patch_size),
          patches_max);
    }
  }
  std::optional<hs::Error> qwen_error;
  hs::FieldReader qwen_reader("config.json", *json, qwen_error);
  const hs::QwenVlConfig qwen = hs::read_qwen_vl_config(qwen_reader);
  if (!qwen_error) {
    HS_CHECK_EQ(qwen.text.n_heads % qwen.text.n_kv_heads, 0);
    HS_CHECK_EQ(qwen.text.rope.n_axes(), 3);
    HS_CHECK_GT(qwen.vision.window_units(), 0);
    HS_CHECK_EQ(qwen.vision.d_head() % 4, 0);
    HS_CHECK_EQ(std::ssize(qwen.vision.sees_all), qwen.vision.n_layers);
  }
  std::optional<hs::Error> generation_error;
  hs::FieldReader generation("generation_config.json", *json, generation_error);
  hs::parse_generation_config(generation);
  return 0;
}
