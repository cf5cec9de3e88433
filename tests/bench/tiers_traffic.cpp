#include "bench/tiers_traffic.h"

#include <algorithm>
#include <utility>

#include "app/bench_load.h"

namespace hs {
namespace {

using Random = BenchRandom;

constexpr int32_t kPictureSide = 64;

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

}  // namespace

Result<std::vector<Arrival>> make_traffic(const Model& model, const TrafficOptions& options) {
  Random random(options.seed);
  std::vector<Arrival> arrivals;
  for (int burst = 0; burst < options.n_bursts; ++burst) {
    const double at = uniform(random);
    const int n_pictures = std::clamp(poisson(random, options.burst_mean), 1, 8);
    for (int i = 0; i < n_pictures; ++i) {
      Result<Prompt> prompt =
          noise_prompt(*model.prompts, options.pictures_per_request, kPictureSide, kPictureSide,
                       "what is in the picture", random);
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
