// Qwen2.5-VL (Bai et al., 2025): a vision tower with window attention for pictures of any size, and
// a Qwen2 language model whose tokens have positions in time, height and width.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "media/qwen_preprocess.h"
#include "model/json_fields.h"
#include "model/llama_config.h"
#include "model/qwen_vision.h"

namespace hs {

struct QwenVlConfig {
  LlamaConfig text;
  QwenVisionConfig vision;
  int32_t image_token_id = 0;
};

// Reads config.json, with the text settings in text_config or, as first published, at the top
// level; complaints go to the reader.
QwenVlConfig read_qwen_vl_config(FieldReader& config);

// One name for each weight, whatever generation of files it comes from:
//   visual.*  from  [model.]visual.*
//   *         from  [model.][language_model.]*  (embed_tokens, layers.N, norm), lm_head
std::string canonical_qwen_vl_name(std::string_view stored);

// The processor must make the patches that the tower takes: sizes in the preprocessor's files are
// those of config.json.
Status check_qwen_processor(const QwenProcessorConfig& processor, const QwenVisionConfig& vision);

}  // namespace hs
