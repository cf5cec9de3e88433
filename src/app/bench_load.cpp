#include "app/bench_load.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

namespace hs {

double uniform(BenchRandom& random) {
  return static_cast<double>(random() >> 11U) * 0x1p-53;
}

int between(BenchRandom& random, int low, int high) {
  return low + static_cast<int>(uniform(random) * (high - low + 1));
}

int poisson(BenchRandom& random, double mean) {  // Knuth
  int count = 0;
  for (double product = uniform(random); product > std::exp(-mean); product *= uniform(random)) {
    ++count;
  }
  return count;
}

Result<Prompt> noise_prompt(const PromptBuilder& prompts, int n_pictures, int32_t width,
                            int32_t height, std::string text, BenchRandom& random) {
  ChatInput input;
  input.messages.push_back({.role = "user", .parts = {}});
  std::vector<std::shared_ptr<const ImagePatches>> pictures;
  for (int i = 0; i < n_pictures; ++i) {
    const size_t bytes = static_cast<size_t>(width) * static_cast<size_t>(height) * 3;
    Image noise{width, height, std::vector<uint8_t>(bytes)};
    for (uint8_t& value : noise.rgb) value = static_cast<uint8_t>(random());
    auto patches = prompts.preprocess(noise, {});
    if (!patches) return std::unexpected(patches.error());
    pictures.push_back(std::make_shared<const ImagePatches>(std::move(*patches)));
    input.messages.back().parts.push_back({ChatPart::Kind::kImage, {}});
  }
  input.messages.back().parts.push_back({ChatPart::Kind::kText, std::move(text)});
  return prompts.chat(input, std::move(pictures));
}

std::string random_words(const Tokenizer& tokenizer, int32_t n_tokens, BenchRandom& random) {
  std::string text;
  for (int64_t n = 0; n < n_tokens;) {
    std::string word = text.empty() ? "" : " ";
    for (int i = between(random, 2, 7); i > 0; --i) {
      word += static_cast<char>('a' + between(random, 0, 25));
    }
    n += std::max<int64_t>(
        1, std::ssize(tokenizer.encode(word, {.add_special_tokens = false, .literal = {}})));
    text += word;
  }
  return text;
}

Result<BenchTraffic> make_bench_traffic(const PromptBuilder& prompts, const BenchLoad& load) {
  BenchRandom random(load.seed);
  BenchRandom gaps(~load.seed);  // prompts stay the same at every rate
  BenchTraffic traffic;
  double at_s = 0;
  for (int64_t i = 0; i < load.requests; ++i) {
    // The i-th has pictures where i * share passes a whole number.
    const bool pictures =
        (i + 1) * load.picture_requests / load.requests > i * load.picture_requests / load.requests;
    std::string text = random_words(prompts.tokenizer(), load.prompt_tokens, random);
    auto prompt =
        noise_prompt(prompts, pictures ? load.images : 0, load.width, load.height, text, random);
    if (!prompt && !pictures) prompt = prompts.completion(text, true);
    if (!prompt) return std::unexpected(prompt.error());
    GenerateRequest request;
    request.prompt = std::move(*prompt);
    request.max_tokens = load.output_tokens;
    request.temperature = 0;
    request.ignore_eos = true;
    traffic.requests.push_back(std::move(request));
    if (load.rate <= 0) continue;
    traffic.due_s.push_back(at_s);
    at_s += -std::log(1 - uniform(gaps)) / load.rate;
  }
  return traffic;
}

}  // namespace hs
