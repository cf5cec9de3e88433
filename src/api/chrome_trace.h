// The engine's timeline in the trace event format that chrome://tracing and Perfetto open: one
// thread a lane, one complete event an order, microseconds on the engine's clock. Holds numbers and
// device names, no text of any request.
// Reference: the "Trace Event Format" document of the Chromium project.
#pragma once

#include <span>
#include <string>

#include "engine/timeline.h"

namespace hs {

// `now_us`: when it is told, on the timeline's clock.
std::string chrome_trace(std::span<const LaneTimeline> lanes, int64_t now_us);

}  // namespace hs
