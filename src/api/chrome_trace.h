// The engine's timeline in the trace event format that chrome://tracing and Perfetto open: one
// thread a lane, one complete event an order, microseconds on the engine's clock.
// Reference: the "Trace Event Format" document of the Chromium project.
#pragma once

#include <string>
#include <vector>

#include "engine/timeline.h"

namespace hs {

std::string chrome_trace(const std::vector<LaneTimeline>& lanes);

}  // namespace hs
