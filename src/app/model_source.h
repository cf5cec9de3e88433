// Which folder a model's name means: a directory, or a model of the store.
#pragma once

#include <string>

#include "api/model_admin.h"
#include "app/config.h"
#include "base/status.h"

namespace hs {

// `name`: a directory with a checkpoint, else a name of the store (hub/model_store.h), which is
// held from here on. Reads files. kNotFound, with both places that were looked at.
Result<LoadTarget> find_model(const Config& config, const std::string& name);

// `config` for that model: its folder, and the names it is served under.
Config config_of(const Config& config, const LoadTarget& target);

// Free for weights, and which of the shipped cards hold them. dtype as it will be loaded.
MemoryFit fit_memory(const Config& config, const PullPlan& plan);

}  // namespace hs
