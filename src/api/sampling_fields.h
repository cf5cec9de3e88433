// The fields that requests for chat, completions and responses share: how to choose tokens, when to
// stop, how to stream, and what the request is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/format_fields.h"
#include "api/object_reader.h"
#include "kernels/sampling.h"

namespace hs {

struct RequestLimits {
  int32_t choices_max = 16;  // `n`
  int32_t images_max = 16;   // of the whole conversation
  size_t prompts_max = 64;   // of one completions request
  size_t stops_max = 16;
  size_t stop_token_ids_max = 64;
  size_t bad_words_max = 64;
  size_t biases_max = 1024;
};

// How to choose tokens; absent = the model's or OpenAI's default. Token ids are not negative;
// whether they are of the vocabulary is for whoever knows the model.
struct SamplingFields {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<int32_t> top_k;  // 0 = off
  std::optional<float> repetition_penalty;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  std::optional<uint64_t> seed;
  std::optional<int32_t> max_tokens;
  int32_t min_tokens = 0;
  int32_t n = 1;
  int32_t n_logprobs = -1;  // -1 none, 0 chosen tokens only
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  std::vector<std::string> stops;
  std::vector<int32_t> stop_token_ids;
  bool include_stop = false;
  std::vector<TokenBias> logit_bias;
  std::vector<int32_t> allowed_token_ids;
  std::vector<std::string> bad_words;  // none empty
  int32_t priority = 0;
  std::string cache_salt;
  AnswerForm form;
};

struct StreamFields {
  bool stream = false;
  bool include_usage = false;     // one last chunk with usage
  bool continuous_usage = false;  // usage in every chunk
};

// What a request says of itself.
struct RequestLabels {
  std::string model;
  std::string user;           // for the log
  std::string metadata_json;  // for the log; an object of strings, or ""
  bool timings = false;       // stage times beside the usage
  std::vector<std::string> unknown_fields;
};

// temperature, top_p, top_k, min_p, the three penalties, seed, n, stop, stop_token_ids, min_tokens,
// ignore_eos, skip_special_tokens, include_stop_str_in_output, logit_bias, allowed_token_ids,
// bad_words, priority, cache_salt. Errors go to `body`.
void read_sampling(ObjectReader& body, const RequestLimits& limits, SamplingFields& sampling);

// min and the largest number of `name`; larger ones are clamped later, to what the context leaves.
std::optional<int32_t> read_count(ObjectReader& body, std::string_view name, int32_t min);

// stream and stream_options.
void read_stream(ObjectReader& body, StreamFields& stream);

// model (which must be there), user, metadata, timings.
void read_labels(ObjectReader& body, RequestLabels& labels);

// Fields that this server accepts only with a value that asks for nothing, and those of OpenAI's
// that change nothing here.
void refuse_unsupported(ObjectReader& body);
void accept_ignored(ObjectReader& body);

// A list of token ids, at most ids_max of them; complains and returns an empty list otherwise.
std::vector<int32_t> read_token_ids(ObjectReader& body, std::string_view name, size_t ids_max);

}  // namespace hs
