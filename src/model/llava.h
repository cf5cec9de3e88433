// LLaVA-1.5 (Liu et al., 2023): a CLIP tower, a two-layer projector, and a Llama language model
// whose image placeholders are replaced by the projector's rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/clip_config.h"
#include "model/json_fields.h"
#include "model/llama_config.h"

namespace hs {

struct LlavaConfig {
  LlamaConfig text;
  ClipConfig vision;
  std::vector<int32_t> feature_depths;  // vision layers that have run where features are taken
  bool drop_class = true;               // strategy "default"; "full" keeps the class position
  Epilogue projector_activation = Epilogue::kGeluErf;
  bool projector_bias = true;
  int32_t image_token_id = 0;

  int32_t tokens_per_image() const { return vision.n_positions() - (drop_class ? 1 : 0); }
};

// Reads config.json; complaints go to the reader.
LlavaConfig read_llava_config(FieldReader& config);

// processor_config.json repeats some of config.json; a checkpoint that contradicts itself is
// refused.
void check_llava_processor(FieldReader& processor, const LlavaConfig& config);

// One name for each weight, whatever generation of files it comes from:
//   vision.*       from  [model.]vision_tower.[vision_tower.][vision_model.]*
//   projector.*    from  [model.]multi_modal_projector.*, model.mm_projector.{0,2}.*
//   *              from  [model.][language_model.][model.]*  (embed_tokens, layers.N, norm,
//   lm_head)
std::string canonical_llava_name(std::string_view stored);

}  // namespace hs
