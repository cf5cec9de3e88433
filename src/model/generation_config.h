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
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
};

// Reads a checkpoint's generation_config.json; a missing file gives an empty config. As in vLLM,
// do_sample is passed over: a server samples with what stands there unless a request says
// otherwise.
Result<GenerationConfig> read_generation_config(const std::filesystem::path& dir);
GenerationConfig parse_generation_config(FieldReader& reader);

}  // namespace hs
