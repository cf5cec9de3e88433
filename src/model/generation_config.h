// End tokens and sampling defaults of a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "model/json_fields.h"

namespace hs {

struct GenerationConfig {
  std::vector<int32_t> eos_ids;  // empty: the file names none
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int32_t> top_k;
};

// Reads a checkpoint's generation_config.json; a missing file gives an empty config. Sampling
// values are left out when the file says do_sample: false, since they are then not meant to be
// used.
Result<GenerationConfig> read_generation_config(const std::filesystem::path& dir);
GenerationConfig parse_generation_config(FieldReader& reader);

}  // namespace hs
