// One body that runs a reference case on a model and measures how far it is off, for every backend
// and checkpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "golden_cases.h"
#include "model/model.h"

namespace hs::test {

struct Comparison {
  bool ids_equal = false;        // prompt token ids
  bool positions_equal = false;  // and their positions; true when the case has none
  double pixel_difference = 0;   // largest, in normalised units; 0 when the case keeps no pixels
  double image_cosine = 1;       // smallest of an image embedding
  double logits_difference = 0;  // largest at the last prompt position
  std::vector<int32_t> greedy;   // as many tokens as the case has
};

// What the project promises of float32: ids, positions, cosine >= 0.9999, logits within 2e-3, the
// same greedy tokens.
constexpr double kCosineMin = 0.9999;
constexpr double kLogitsTolerance = 2e-3;
// One step of 255 is this much where the standard deviation is smallest; pixels may be one step
// off.
constexpr double kPixelTolerance = 1.0 / 255 / 0.26130258 + 1e-5;

// Decodes and preprocesses the case's pictures and builds its prompt. Aborts when that fails.
Prompt make_prompt(const Model& model, const GoldenCase& golden);
// Whether the tokens are the golden's, up to the first that leads the second-best by less than the
// logits may differ: from there on either may come.
bool same_greedy(const GoldenCase& golden, const std::vector<int32_t>& tokens);
Comparison compare(Model& model, Device& device, const GoldenCase& golden);

}  // namespace hs::test
