// Choosing the next token from logits, one row a sequence, each row with its own settings.
//
// Order: penalties, biases, allowed and banned ids, temperature, then top_k, then top_p of what
// top_k left, then min_p on the scaled distribution, then one draw by inverse CDF in id order with
// u from a counter-based generator (Philox 4x32-10, kernels/philox.h): key = seed, counter =
// (position, choice, 0, 0). The result depends on the row alone, and the token has the same id at
// every instruction-set level. temperature 0 = argmax; equal logits: the lowest id wins, also at a
// cut-off.
#pragma once

#include <cstdint>

#include "kernels/team.h"

namespace hs {

constexpr int kMaxTopLogprobs = 20;

// A token that stands in the prompt or in the output of a sequence.
struct TokenCount {
  int32_t id = 0;
  int32_t n_output = 0;  // how often in the output; 0: in the prompt only
};

// What a client adds to the logit of a token.
struct TokenBias {
  int32_t id = 0;
  float bias = 0;
};

struct SamplingRow {
  float temperature = 1.0F;  // 0 = greedy
  float top_p = 1.0F;        // 0 = only the top token
  float min_p = 0.0F;        // relative to the top probability
  int32_t top_k = 0;         // <= 0: no cut-off
  uint64_t seed = 0;
  uint32_t choice = 0;    // index of the choice (n > 1)
  uint32_t position = 0;  // index of the token inside the output
  int32_t n_logprobs =
      -1;                // -1: none; 0: the chosen token's only; up to kMaxTopLogprobs alternatives
  bool ban_eos = false;  // ignore_eos / min_tokens: banned_ids are not sampled
  const int32_t* banned_ids = nullptr;  // (n_banned), used when ban_eos
  int32_t n_banned = 0;
  // Penalties, each on the tokens of `counts`, in float32 in this order:
  float repetition_penalty = 1.0F;  // a logit above 0 is divided by it, another one multiplied; > 0
  float frequency_penalty = 0.0F;   // subtracted for each time that the token stands in the output
  float presence_penalty = 0.0F;    // subtracted once from tokens that stand in the output
  const TokenCount* counts = nullptr;  // (n_counts), each id once
  int32_t n_counts = 0;
  const TokenBias* biases = nullptr;  // (n_biases), each id once
  int32_t n_biases = 0;
  // One bit an id, 32 ids a word, the lowest id in the lowest bit: only ids with a set bit are
  // sampled. (vocab + 31) / 32 words, or null: all are. Bans give way when nothing else would be
  // left; this gives way only when it allows nothing at all.
  const uint32_t* allowed = nullptr;
  // Not negative: nothing is drawn, this id is taken, for its log-probability (tokens of a prompt).
  // REQUIRES: below the vocabulary's size.
  int32_t forced_id = -1;
};

// Log-probabilities are of the raw model distribution (before penalties, biases, temperature and
// cut-offs), clamped to >= -9999.
struct SampledToken {
  int32_t id = 0;
  float logprob = 0;  // of id; 0 when n_logprobs < 0
  int32_t n_top = 0;
  int32_t top_ids[kMaxTopLogprobs] = {};  // most likely first, lowest id first on ties
  float top_logprobs[kMaxTopLogprobs] = {};
  bool non_finite = false;  // a NaN or +-infinity stood among the logits; id is then 0
};

struct SampleParams {
  const float* logits = nullptr;      // (n_rows, vocab), rows logits_stride apart
  const SamplingRow* rows = nullptr;  // (n_rows)
  SampledToken* out = nullptr;        // (n_rows)
  int64_t n_rows = 0;
  int64_t vocab = 0;          // ids >= vocab (padding rows of the matrix) are never sampled
  int64_t logits_stride = 0;  // in floats
};

void sample_cpu(const SampleParams& params, Team& team);

}  // namespace hs
