#include "api/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace hs {
namespace {

using nlohmann::json;

// Any value above 0 has a meaning; beyond these the logits are no longer a distribution.
constexpr double kRepetitionPenaltyMin = 0.01;
constexpr double kRepetitionPenaltyMax = 100;

std::optional<float> to_float(std::optional<double> value) {
  if (!value) return {};
  return static_cast<float>(*value);
}

void read_stops(ObjectReader& body, const RequestLimits& limits, SamplingFields& sampling) {
  const json* stop = body.any("stop");
  if (stop == nullptr) return;
  const json list = stop->is_array() ? *stop : json::array({*stop});
  if (list.size() > limits.stops_max)
    return body.fail_field("stop", fmt::format("'stop' has {} strings; at most {} are allowed.",
                                               list.size(), limits.stops_max));
  for (const json& text : list) {
    if (!text.is_string())
      return body.fail_field("stop", "'stop' must be a string or a list of strings.",
                             ErrorKind::kInvalidArgument, "invalid_type");
    if (text.get_ref<const std::string&>().empty())
      return body.fail_field("stop", "'stop' must not hold an empty string.");
    sampling.stops.push_back(text.get<std::string>());
  }
}

void read_stop_token_ids(ObjectReader& body, const RequestLimits& limits,
                         SamplingFields& sampling) {
  const json* ids = body.any("stop_token_ids");
  if (ids == nullptr) return;
  if (!ids->is_array() || ids->size() > limits.stop_token_ids_max)
    return body.fail_field("stop_token_ids",
                           fmt::format("'stop_token_ids' must be a list of at most {} "
                                       "token ids.",
                                       limits.stop_token_ids_max));
  for (const json& id : *ids) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX)
      return body.fail_field("stop_token_ids",
                             "'stop_token_ids' must hold token ids of the vocabulary.");
    sampling.stop_token_ids.push_back(id.get<int32_t>());
  }
}

bool is_zero(const json& value) {
  return value.is_number() && value.get<double>() == 0;
}
bool is_one(const json& value) {
  return value.is_number() && value.get<double>() == 1;
}
bool is_false(const json& value) {
  return value.is_boolean() && !value.get<bool>();
}
bool is_empty(const json& value) {
  return value.is_structured() && value.empty();
}
bool is_never(const json&) {
  return false;
}

struct Unsupported {
  const char* name;
  bool (*asks_nothing)(const json&);
};
constexpr Unsupported kUnsupported[] = {
    {"length_penalty", is_one},
    {"logit_bias", is_empty},
    {"min_tokens", is_zero},
    {"use_beam_search", is_false},
    {"best_of", is_one},
    {"bad_words", is_empty},
    {"allowed_token_ids", is_empty},
    {"include_stop_str_in_output", is_false},
    {"prompt_logprobs", is_never},
    {"logprob_token_ids", is_empty},
    {"return_token_ids", is_false},
    {"truncate_prompt_tokens", is_never},
    {"structured_outputs", is_never},
    {"guided_json", is_never},
    {"guided_regex", is_never},
    {"guided_choice", is_never},
    {"guided_grammar", is_never},
    {"echo", is_false},
    {"continue_final_message", is_false},
    {"chat_template", is_never},
    {"chat_template_kwargs", is_empty},
    {"media_io_kwargs", is_empty},
    {"cache_salt", is_never},
    {"priority", is_zero},
    {"audio", is_never},
};

}  // namespace

void read_sampling(ObjectReader& body, const RequestLimits& limits, SamplingFields& sampling) {
  sampling.temperature = to_float(body.number("temperature", 0, 2));
  sampling.top_p = to_float(body.number("top_p", 0, 1));
  sampling.min_p = to_float(body.number("min_p", 0, 1));
  if (const auto top_k = body.integer("top_k", -1, INT64_MAX))
    sampling.top_k = static_cast<int32_t>(std::clamp<int64_t>(*top_k, 0, INT32_MAX));
  sampling.repetition_penalty =
      to_float(body.number("repetition_penalty", kRepetitionPenaltyMin, kRepetitionPenaltyMax));
  sampling.frequency_penalty = to_float(body.number("frequency_penalty", -2, 2)).value_or(0.0F);
  sampling.presence_penalty = to_float(body.number("presence_penalty", -2, 2)).value_or(0.0F);
  if (const auto seed = body.integer("seed", INT64_MIN, INT64_MAX))
    sampling.seed = static_cast<uint64_t>(*seed);
  if (const auto n = body.integer("n", 1, limits.choices_max))
    sampling.n = static_cast<int32_t>(*n);
  sampling.ignore_eos = body.boolean("ignore_eos").value_or(false);
  sampling.skip_special_tokens = body.boolean("skip_special_tokens").value_or(true);
  body.boolean("spaces_between_special_tokens");
  read_stops(body, limits, sampling);
  read_stop_token_ids(body, limits, sampling);
}

void read_stream(ObjectReader& body, StreamFields& stream) {
  stream.stream = body.boolean("stream").value_or(false);
  const json* options = body.any("stream_options");
  if (options == nullptr) return;
  if (!options->is_object())
    return body.fail_field("stream_options", "'stream_options' must be an object.",
                           ErrorKind::kInvalidArgument, "invalid_type");
  if (!stream.stream)
    return body.fail_field("stream_options",
                           "'stream_options' is only allowed with 'stream': true.");
  ObjectReader fields(*options, "stream_options");
  stream.include_usage = fields.boolean("include_usage").value_or(false);
  stream.continuous_usage = fields.boolean("continuous_usage_stats").value_or(false);
  fields.boolean("include_obfuscation");  // padding against traffic analysis: accepted, not added
  if (fields.failed()) body.fail_with(fields.status().error());
}

void refuse_unsupported(ObjectReader& body) {
  for (const Unsupported& field : kUnsupported) {
    const json* value = body.any(field.name);
    if (value != nullptr && !field.asks_nothing(*value))
      body.fail_field(field.name,
                      fmt::format("'{}' is not supported yet with this value.", field.name),
                      ErrorKind::kUnsupported, "unsupported_parameter");
  }
}

}  // namespace hs
