#include "model/generation_config.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace hs {
namespace {

constexpr double kRepetitionPenaltyMin = 0.01;  // division by less makes every logit infinite

}  // namespace

GenerationConfig parse_generation_config(FieldReader& reader) {
  GenerationConfig config;
  config.eos_ids = reader.integers("eos_token_id", 0, std::numeric_limits<int32_t>::max());
  if (reader.has("temperature")) {
    config.temperature = static_cast<float>(reader.number("temperature", 0, 100));
  }
  if (reader.has("top_p")) config.top_p = static_cast<float>(reader.number("top_p", 0, 1));
  if (reader.has("top_k")) {
    config.top_k = reader.integer("top_k", -1, std::numeric_limits<int32_t>::max());
  }
  if (reader.has("min_p")) config.min_p = static_cast<float>(reader.number("min_p", 0, 1));
  if (reader.has("repetition_penalty")) {
    config.repetition_penalty =
        static_cast<float>(reader.number("repetition_penalty", kRepetitionPenaltyMin, 100));
  }
  return config;
}

Result<GenerationConfig> read_generation_config(const std::filesystem::path& dir) {
  const auto json = read_json_file(dir / "generation_config.json");
  if (!json) {
    if (json.error().kind == ErrorKind::kNotFound) return GenerationConfig{};
    return std::unexpected(json.error());
  }
  std::optional<Error> error;
  FieldReader reader("generation_config.json", *json, error);
  auto config = parse_generation_config(reader);
  if (error) return std::unexpected(std::move(*error));
  return config;
}

}  // namespace hs
