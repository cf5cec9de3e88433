// Models, plans and jobs as JSON objects: for the administration routes and for --json.
#pragma once

#include <string>

#include "api/model_admin.h"

namespace hs {

// `state`: "stored", or that of the served model.
std::string stored_model_json(const StoredModel& model, std::string_view state);
std::string partial_model_json(const PartialModel& partial);
std::string served_state_json(const ServedState& state);
std::string pull_plan_json(const PullPlan& plan, const MemoryFit& fit);
std::string pull_job_json(const PullJobState& job);

}  // namespace hs
