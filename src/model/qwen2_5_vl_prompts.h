// Prompts of Qwen2.5-VL: its picture processor's settings, image placeholders, and M-RoPE
// positions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/status.h"
#include "media/qwen_preprocess.h"
#include "model/json_fields.h"
#include "model/model.h"
#include "model/prompt.h"

namespace hs {

// The maximum of pixels for pictures of `detail: low`: 256 tokens of 28 x 28.
constexpr int64_t kQwenLowDetailPixels = int64_t{256} * 28 * 28;

struct QwenPromptConfig {
  int32_t image_token_id = 0;
  QwenProcessorConfig processor;
};

// processor_config.json with a nested image_processor, else preprocessor_config.json. The bounds of
// the area stand there as min_pixels and max_pixels, or as size.shortest_edge and
// size.longest_edge (which are areas, too). Errors name file and field.
Result<QwenProcessorConfig> read_qwen_processor(const std::filesystem::path& dir);
QwenProcessorConfig parse_qwen_processor(FieldReader& reader);

// `config` with what a request asks for. The checkpoint's maximum caps both values of the request,
// and the maximum caps the minimum.
QwenProcessorConfig apply_image_options(const QwenProcessorConfig& config,
                                        const ImageOptions& options);

// Fills positions (3, n tokens) and position_delta: the rule of get_rope_index in
// transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py, 5.24. A text token has the same position
// on the three axes, one after the previous maximum; a picture that starts at p has (p, p + row, p
// + column) on its merged grid, and the text after it goes on at p + the longer side of that grid.
void number_mrope_positions(Prompt& prompt, int32_t merge_size);

// `text` as loaded. preprocess() refuses aspect ratios over kQwenAspectRatioMax.
std::unique_ptr<PromptBuilder> make_qwen_prompt_builder(PromptText text,
                                                        const QwenPromptConfig& config);

}  // namespace hs
