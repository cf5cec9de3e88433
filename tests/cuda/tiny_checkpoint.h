// A LLaVA small enough for hundreds of emulated serves.
#pragma once

#include <cstdint>
#include <filesystem>

#include "model/model.h"

namespace hs::test {

// Random weights, the same every time, with the demo's tokenizer: a language model of 2 layers,
// d 32, 2 heads; a tower of 2 layers of which one is used, pictures of 28 pixels, so 4 rows each.
void write_tiny_llava(const std::filesystem::path& dir);
constexpr int32_t kTinyPictureRows = 4;

// Tokens of text; with a picture its rows stand after the second of them. REQUIRES: n_text >= 3.
Prompt tiny_prompt(const Model& model, int32_t n_text, int32_t seed, bool picture);

}  // namespace hs::test
