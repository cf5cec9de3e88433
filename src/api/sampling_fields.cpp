#include "api/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/sequence.h"

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

std::optional<int32_t> token_id_of(const json& value) {
  if (!value.is_number_integer() || value < 0 || value > INT32_MAX) return {};
  return value.get<int32_t>();
}

// Decimal digits and nothing else: keys of JSON objects are strings.
std::optional<int32_t> token_id_of(const std::string& key) {
  int32_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || key.front() == '-') return {};
  return id;
}

void read_logit_bias(ObjectReader& body, const RequestLimits& limits, SamplingFields& sampling) {
  constexpr double kBiasMax = 100;
  const json* biases = body.any("logit_bias");
  if (biases == nullptr) return;
  if (!biases->is_object() || biases->size() > limits.biases_max)
    return body.fail_field("logit_bias",
                           fmt::format("'logit_bias' must be an object of at most {} token ids, "
                                       "each with a number.",
                                       limits.biases_max));
  std::map<int32_t, float> by_id;  // "5" and "05" are the same token
  for (const auto& [key, value] : biases->items()) {
    const auto id = token_id_of(key);
    if (!id)
      return body.fail_field("logit_bias",
                             "'logit_bias' must have token ids in decimal digits as its keys.");
    if (!value.is_number() || !(std::abs(value.get<double>()) <= kBiasMax))
      return body.fail_field("logit_bias",
                             fmt::format("'logit_bias' of token {} must be a number from -100 to "
                                         "100.",
                                         *id));
    by_id[*id] = value.get<float>();
  }
  for (const auto& [id, bias] : by_id) sampling.logit_bias.push_back({id, bias});
}

void read_bad_words(ObjectReader& body, const RequestLimits& limits, SamplingFields& sampling) {
  const json* words = body.any("bad_words");
  if (words == nullptr) return;
  const bool fits = words->is_array() && words->size() <= limits.bad_words_max &&
                    std::ranges::all_of(*words, [](const json& word) {
                      return word.is_string() && !word.get_ref<const std::string&>().empty();
                    });
  if (!fits)
    return body.fail_field("bad_words", fmt::format("'bad_words' must be a list of at most {} "
                                                    "strings, none of them empty.",
                                                    limits.bad_words_max));
  sampling.bad_words = words->get<std::vector<std::string>>();
}

// Hashed elsewhere; long ones only cost.
void read_cache_salt(ObjectReader& body, SamplingFields& sampling) {
  constexpr size_t kBytesMax = 1024;
  const std::string* salt = body.string("cache_salt");
  if (salt == nullptr) return;
  if (salt->empty() || salt->size() > kBytesMax)
    return body.fail_field("cache_salt",
                           fmt::format("'cache_salt' must have 1 to {} bytes.", kBytesMax));
  sampling.cache_salt = *salt;
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
    {"use_beam_search", is_false},
    {"prompt_logprobs", is_never},
    {"logprob_token_ids", is_empty},
    {"return_token_ids", is_false},
    {"truncate_prompt_tokens", is_never},
    {"guided_json", is_never},
    {"guided_regex", is_never},
    {"guided_choice", is_never},
    {"guided_grammar", is_never},
    {"chat_template", is_never},
    {"media_io_kwargs", is_empty},
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
  sampling.stop_token_ids = read_token_ids(body, "stop_token_ids", limits.stop_token_ids_max);
  sampling.include_stop = body.boolean("include_stop_str_in_output").value_or(false);
  sampling.min_tokens = read_count(body, "min_tokens", 0).value_or(0);
  read_logit_bias(body, limits, sampling);
  sampling.allowed_token_ids = read_token_ids(body, "allowed_token_ids", INT32_MAX);
  const json* allowed = body.any("allowed_token_ids");
  if (allowed != nullptr && allowed->empty())
    body.fail_field("allowed_token_ids", "'allowed_token_ids' must not be empty.");
  read_bad_words(body, limits, sampling);
  if (const auto priority = body.integer("priority", -kPriorityMax, kPriorityMax))
    sampling.priority = static_cast<int32_t>(*priority);
  read_cache_salt(body, sampling);
}

std::optional<int32_t> read_count(ObjectReader& body, std::string_view name, int32_t min) {
  const auto value = body.integer(name, min, INT64_MAX);
  if (!value) return {};
  return static_cast<int32_t>(std::min<int64_t>(*value, INT32_MAX));
}

std::vector<int32_t> read_token_ids(ObjectReader& body, std::string_view name, size_t ids_max) {
  const json* list = body.any(name);
  std::vector<int32_t> ids;
  if (list == nullptr) return ids;
  if (!list->is_array() || list->size() > ids_max) {
    body.fail_field(name, fmt::format("'{}' must be a list of at most {} token ids.",
                                      body.param(name), ids_max));
    return ids;
  }
  for (const json& value : *list) {
    const auto id = token_id_of(value);
    if (!id) {
      body.fail_field(name,
                      fmt::format("'{}' must hold token ids of the vocabulary.", body.param(name)));
      return {};
    }
    ids.push_back(*id);
  }
  return ids;
}

void read_labels(ObjectReader& body, RequestLabels& labels) {
  constexpr size_t kMetadataBytesMax = 16384;  // 16 pairs of OpenAI's longest keys and values
  if (const std::string* model = body.string("model"))
    labels.model = *model;
  else
    body.fail_field("model", "'model' is missing.");
  for (const char* name : {"user", "safety_identifier"})
    if (const std::string* user = body.string(name)) labels.user = user->substr(0, 128);
  labels.timings = body.boolean("timings").value_or(false);
  const json* metadata = body.any("metadata");
  if (metadata == nullptr) return;
  const bool fits = metadata->is_object() &&
                    std::ranges::all_of(*metadata, [](const json& v) { return v.is_string(); });
  const std::string text =
      fits ? metadata->dump(-1, ' ', false, json::error_handler_t::replace) : "";
  if (!fits || text.size() > kMetadataBytesMax)
    return body.fail_field("metadata",
                           fmt::format("'metadata' must be an object of strings, of at most {} "
                                       "bytes.",
                                       kMetadataBytesMax));
  if (!metadata->empty()) labels.metadata_json = text;
}

void accept_ignored(ObjectReader& body) {
  for (const char* name : {"reasoning_effort", "verbosity", "service_tier", "prediction",
                           "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
                           "moderation", "parallel_tool_calls", "web_search_options", "request_id"})
    body.any(name);
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
