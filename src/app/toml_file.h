// A TOML file as flat settings.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/status.h"

namespace hs {

// [engine] max_num_seqs = 8 -> {"engine.max_num_seqs", "8"}; lists of strings are joined by commas.
// Errors name the file and line.
Result<std::map<std::string, std::string>> read_toml_settings(const std::filesystem::path& path);

}  // namespace hs
