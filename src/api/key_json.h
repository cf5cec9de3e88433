// API keys and what they used, as JSON.
#pragma once

#include <string>

#include "store/api_keys.h"
#include "store/usage.h"

namespace hs {

// Never the hash. Limits and times that are not there are null.
std::string key_json(const ApiKey& key);
// With "key": the one time it is told.
std::string new_key_json(const NewKey& made);
std::string usage_json(const UsageRow& row);

}  // namespace hs
