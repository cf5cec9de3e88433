// Whether a checkpoint is of a family that this program has, from its config.json alone.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace hs {

// The architecture by the name that ModelSpec has. kUnsupported: another one, with the list of
// ours; kDataLoss: no config of a checkpoint. `name` is used in messages.
Result<std::string> supported_architecture(std::string_view config_json, std::string_view name);

}  // namespace hs
