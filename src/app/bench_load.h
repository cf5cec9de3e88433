// The requests that benches send: random words and pictures of noise, always the same for the same
// seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "model/model.h"

namespace hs {

using BenchRandom = std::mt19937_64;

// The standard's distributions differ between libraries; these do not.
double uniform(BenchRandom& random);  // [0, 1)
int between(BenchRandom& random, int low, int high);
int poisson(BenchRandom& random, double mean);

// A question about pictures of noise, none like another. Errors: those of the prompt builder.
Result<Prompt> noise_prompt(const PromptBuilder& prompts, int n_pictures, int32_t width,
                            int32_t height, std::string text, BenchRandom& random);

// Words of random letters, about n_tokens tokens of them.
std::string random_words(const Tokenizer& tokenizer, int32_t n_tokens, BenchRandom& random);

struct BenchLoad {
  uint64_t seed = 1;
  int32_t requests = 32;
  int32_t picture_requests = 16;  // of the requests
  int32_t images = 1;             // in each of those
  int32_t width = 336;            // of a picture
  int32_t height = 336;
  int32_t prompt_tokens = 64;  // of text, about
  int32_t output_tokens = 32;  // end tokens are ignored
  double rate = 0;             // requests a second, Poisson; 0: as many at once as are allowed
};

struct BenchTraffic {
  std::vector<GenerateRequest> requests;  // those with pictures spread evenly among the others
  std::vector<double> due_s;              // with a rate, else empty
};

// Greedy requests. A model without a chat template gets text as it is.
Result<BenchTraffic> make_bench_traffic(const PromptBuilder& prompts, const BenchLoad& load);

}  // namespace hs
