#include "bench/tiers_traffic.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

namespace hs {
namespace {

using Random = std::mt19937_64;

// The standard's distributions differ between libraries; these do not.
double uniform(Random& random) {
  return static_cast<double>(random() >> 11U) * 0x1p-53;
}
int between(Random& random, int low, int high) {
  return low + static_cast<int>(uniform(random) * (high - low + 1));
}
int poisson(Random& random, double mean) {  // Knuth
  int count = 0;
  for (double product = uniform(random); product > std::exp(-mean); product *= uniform(random)) {
    ++count;
  }
  return count;
}

GenerateRequest with_output(Prompt prompt, Random& random) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = between(random, 32, 63);
  request.temperature = 0;
  request.ignore_eos = true;
  return request;
}

Prompt text_prompt(Random& random) {
  Prompt prompt;
  const int n_tokens = between(random, 32, 127);
  for (int i = 0; i < n_tokens; ++i) {
    prompt.token_ids.push_back(between(random, 64, 319));
    prompt.positions.push_back(i);
  }
  return prompt;
}

Result<Prompt> picture_prompt(const Model& model, int n_pictures, Random& random) {
  ChatInput input;
  input.messages.push_back({.role = "user", .parts = {}});
  std::vector<std::shared_ptr<const ImagePatches>> pictures;
  for (int i = 0; i < n_pictures; ++i) {
    Image noise{64, 64, std::vector<uint8_t>(size_t{64} * 64 * 3)};
    for (uint8_t& value : noise.rgb) value = static_cast<uint8_t>(random());
    auto patches = model.prompts->preprocess(noise, {});
    if (!patches) return std::unexpected(patches.error());
    pictures.push_back(std::make_shared<const ImagePatches>(std::move(*patches)));
    input.messages.back().parts.push_back({ChatPart::Kind::kImage, {}});
  }
  input.messages.back().parts.push_back({ChatPart::Kind::kText, "what is in the picture"});
  return model.prompts->chat(input, std::move(pictures));
}

}  // namespace

Result<std::vector<Arrival>> make_traffic(const Model& model, const TrafficOptions& options) {
  Random random(options.seed);
  std::vector<Arrival> arrivals;
  for (int burst = 0; burst < options.n_bursts; ++burst) {
    const double at = uniform(random);
    const int n_pictures = std::clamp(poisson(random, options.burst_mean), 1, 8);
    for (int i = 0; i < n_pictures; ++i) {
      Result<Prompt> prompt = picture_prompt(model, options.pictures_per_request, random);
      if (!prompt) return std::unexpected(prompt.error());
      arrivals.push_back({at, with_output(std::move(*prompt), random)});
    }
  }
  for (int i = 0; i < options.n_text; ++i) {
    const double at = uniform(random);
    arrivals.push_back({at, with_output(text_prompt(random), random)});
  }
  std::ranges::stable_sort(arrivals, {}, &Arrival::at);
  return arrivals;
}

}  // namespace hs
