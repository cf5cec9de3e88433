// Plays requests to an engine on the calling thread, without HTTP, and keeps what came back.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/wake_up.h"
#include "engine/engine.h"

namespace hs {

struct PlayedRequest {
  RequestId id = 0;
  int64_t submitted_us = 0;  // on the clock
  std::string text;          // of all choices
  int32_t n_tokens = 0;
  // Of each token but the first: time since the one before. Tokens that come together share it.
  std::vector<double> gaps_us;
  RequestUsage usage;
  RequestTimings timings;
  std::optional<Error> error;
};

struct Schedule {
  // When each request is submitted, seconds from the start, ascending; empty: as soon as `at_once`
  // allows.
  std::vector<double> due_s = {};
  size_t at_once = std::numeric_limits<size_t>::max();  // requests under way
};

struct Played {
  std::vector<PlayedRequest> requests;
  double seconds = 0;  // until the engine is idle again
};

// The engine is idle, and `wake` is what its wake-ups notify. Errors: what submit() says; a request
// that fails later has its error instead.
Result<Played> play(Engine& engine, const Clock& clock, WakeUp& wake,
                    std::span<const GenerateRequest> requests, const Schedule& schedule);

}  // namespace hs
