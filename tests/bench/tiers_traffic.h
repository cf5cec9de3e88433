// The traffic of the two-tier bench: bursts of pictures with text between them, always the same for
// the same seed.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.h"
#include "model/model.h"

namespace hs {

struct TrafficOptions {
  uint64_t seed = 1;
  int n_bursts = 10;
  double burst_mean = 4;  // pictures of a burst: Poisson, 1 .. 8, each a request of its own
  int n_text = 50;
  int pictures_per_request = 1;
};

struct Arrival {
  double at = 0;  // 0 .. 1 of the traffic's length
  GenerateRequest request;
};

// Bursts and text requests come at times drawn evenly, so the gaps between them are those of a
// Poisson process. Text prompts have 32 to 127 tokens, answers 32 to 63. No two pictures are alike.
// Sorted by time.
Result<std::vector<Arrival>> make_traffic(const Model& model, const TrafficOptions& options);

}  // namespace hs
